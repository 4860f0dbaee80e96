"""Which nodes of an edge program TensorRT takes."""

from .tensorrt_partitioner import TensorRTPartitioner

__all__ = ["TensorRTPartitioner"]
