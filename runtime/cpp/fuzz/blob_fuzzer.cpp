// The blob reader over any bytes: refused with a text, or read into what the rest of the runtime
// relies on.
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/error.h>

#include <cstdlib>
#include <cstring>

#include "delegate_blob.h"
#include "last_error.h"

namespace executorch_tensorrt {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool lies_within(const Section& section, const uint8_t* data, size_t size) {
  return section.size == 0 || (section.data >= data && section.size <= size &&
                               static_cast<size_t>(section.data - data) <= size - section.size);
}

void check_read(const DelegateBlob& blob, const uint8_t* data, size_t size) {
  require(lies_within(blob.fallback, data, size));
  require(blob.external_engine ? blob.engine.data == nullptr
                               : lies_within(blob.engine, data, size));
  require(blob.engine.size > 0 && !blob.profiles.empty());
  require(blob.num_inputs <= blob.bindings.size());
  for (size_t i = 0; i < blob.bindings.size(); ++i) {
    const Binding& binding = blob.bindings[i];
    require(binding.is_input == (i < blob.num_inputs));
    require(binding.argument < blob.num_arguments && binding.dims.rank <= kMaxRank);
  }
  for (const Profile& profile : blob.profiles) {
    require(profile.inputs.size() == blob.num_inputs);
    require(profile.engine_profile < blob.profiles.size());
    for (size_t i = 0; i < blob.num_inputs; ++i) {
      require(bytes_of(blob.bindings[i], profile.inputs[i].max) <= blob.bindings[i].max_bytes);
    }
  }
}

}  // namespace
}  // namespace executorch_tensorrt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace executorch_tensorrt;
  static const bool initialized = (executorch::runtime::runtime_init(), true);
  (void)initialized;
  clear_last_error();
  const UnloggedErrors quiet;
  const auto blob = DelegateBlob::parse(data, size);
  if (blob.ok()) {
    check_read(*blob, data, size);
  } else {
    require(blob.error() == Error::DelegateInvalidCompatibility);
    require(std::strlen(last_error_message()) > 0);
  }
  return 0;
}
