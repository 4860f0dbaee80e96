// Links the library, uses nothing that it defines, and finds the backend registered.
#include <executorch/runtime/backend/interface.h>
#include <executorch_tensorrt/options.h>
#include <options.h>

#include <cstdio>

int main() {
  const auto* backend = executorch::runtime::get_backend_class(executorch_tensorrt::kBackendId);
  std::printf("%s; %s\n", consumer::kOptions, backend == nullptr ? "no backend" : "backend");
  return backend == nullptr ? 1 : 0;
}
