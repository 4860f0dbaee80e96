"""Models that people use, small and with random weights, by domain."""

from __future__ import annotations

import diffusion_models
import language_models
import speech_models
import vision_models
from model_case import CaseMaker

CASES: dict[str, CaseMaker] = {
    **language_models.CASES,
    **vision_models.CASES,
    **speech_models.CASES,
    **diffusion_models.CASES,
}
