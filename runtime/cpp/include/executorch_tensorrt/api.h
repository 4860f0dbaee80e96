// Marks what libexecutorch_tensorrt.so exports; everything else in it is hidden.
#pragma once

#define EXECUTORCH_TENSORRT_API __attribute__((visibility("default")))
