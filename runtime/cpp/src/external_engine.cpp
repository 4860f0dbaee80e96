#include "external_engine.h"

#include <string_view>
#include <utility>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;

constexpr std::string_view kPrefix = "tensorrt_engine_";

/// The names of the engines that are there, so that a wrong file can be told.
std::string engines_in(const NamedDataMap& data) {
  const auto count = data.get_num_keys();
  std::string names;
  for (uint32_t i = 0; count.ok() && i < *count; ++i) {
    const auto key = data.get_key(i);
    if (!key.ok() || std::string_view(*key).substr(0, kPrefix.size()) != kPrefix) continue;
    names += (names.empty() ? "" : ", ") + std::string(*key);
  }
  return names.empty() ? "no engine" : names;
}

}  // namespace

std::string external_engine_key(const DelegateBlob& blob) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string key(kPrefix);
  for (const uint8_t byte : blob.engine_id) {
    key += kDigits[byte >> 4];
    key += kDigits[byte & 15];
  }
  return key;
}

Result<FreeableBuffer> load_external_engine(DelegateBlob& blob, const NamedDataMap* data) {
  const std::string key = external_engine_key(blob);
  const std::string what = "the engine is outside the program, in a .ptd file, as '" + key + "' (" +
                           std::to_string(blob.engine.size) + " bytes)";
  if (data == nullptr) {
    return report(Error::InvalidExternalData,
                  what +
                      ", and no data file was given: give the one that was exported with the "
                      "program, to load(..., data=...) or to the Module");
  }
  auto found = data->get_data(key);
  if (!found.ok()) {
    const bool missing = found.error() == Error::NotFound;
    return report(Error::InvalidExternalData,
                  missing ? what + ", and the data given holds " + engines_in(*data) +
                                ": give the file that was exported with the program"
                          : what + ", which can't be read: ExecuTorch answered " +
                                executorch::runtime::to_string(found.error()));
  }
  if (found->size() != blob.engine.size) {
    return report(Error::InvalidExternalData, what + ", and has " + std::to_string(found->size()) +
                                                  " bytes there: the file is damaged");
  }
  blob.engine.data = static_cast<const uint8_t*>(found->data());
  return std::move(*found);
}

}  // namespace executorch_tensorrt
