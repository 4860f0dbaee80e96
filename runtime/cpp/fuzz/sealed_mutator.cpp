// libFuzzer's mutations, of a blob's parts, and changes of its fields: the blob is sealed again
// behind most of them.
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <random>

#include "delegate_blob.h"
#include "field_mutations.h"
#include "last_error.h"
#include "sealed_blob.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using executorch_tensorrt::fuzz::Bytes;
using executorch_tensorrt::fuzz::kHeaderBytes;

void mutate(Bytes& bytes, size_t room) {
  const size_t size = bytes.size();
  bytes.resize(size + room);
  bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

/// Where the blob is one; else none of it is changed.
void mutate_fields(executorch_tensorrt::fuzz::Parts& parts, std::minstd_rand& random) {
  using executorch_tensorrt::DelegateBlob;
  auto whole = parts;
  whole.rest.clear();
  const Bytes sealed = executorch_tensorrt::fuzz::seal(std::move(whole));
  executorch::runtime::runtime_init();
  const executorch_tensorrt::UnloggedErrors quiet;
  const auto blob = DelegateBlob::parse(sealed.data(), sealed.size());
  if (!blob.ok()) return;
  parts.metadata = executorch_tensorrt::fuzz::FieldMutations(*blob, parts.minor, random).mutated();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  auto parts = executorch_tensorrt::fuzz::take_apart(data, size);
  const auto choice = random() % 16;
  if (!parts) return LLVMFuzzerMutate(data, size, max_size);
  if (choice == 0) {  // and not sealed again
    LLVMFuzzerMutate(data, kHeaderBytes + parts->metadata.size(),
                     kHeaderBytes + parts->metadata.size());
    return size;
  }
  const size_t room = std::min<size_t>(max_size - std::min(max_size, size), 64);
  if (choice < 4) {
    mutate(parts->metadata, room);
  } else if (choice < 10) {
    mutate_fields(*parts, random);
  } else if (choice < 14) {
    mutate(parts->rest, room);
  } else if (choice < 15) {
    mutate(parts->engine, room);
    if (parts->engine.empty()) parts->external_engine = random();
  } else {
    parts->minor = static_cast<uint16_t>(random() % 3);
  }
  const Bytes sealed = executorch_tensorrt::fuzz::seal(std::move(*parts));
  if (sealed.size() > max_size) return size;
  std::memcpy(data, sealed.data(), sealed.size());
  return sealed.size();
}
