// libFuzzer's mutations, of a blob's parts: the blob is sealed again behind most of them.
#include <algorithm>
#include <random>

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
  if (choice < 10) {
    mutate(parts->metadata, room);
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
