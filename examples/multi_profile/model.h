// A method of a .pte, loaded, and inputs for each of its profiles.
#pragma once

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch_tensorrt/delegate_info.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace multi_profile {

using Tensors = std::vector<executorch::extension::TensorPtr>;
using Values = std::vector<executorch::runtime::EValue>;
using executorch_tensorrt::DelegateInfo;
using executorch_tensorrt::ProfileInfo;

/// A tensor of that dtype and shape, always filled alike: floats from -1 to 1, integers 0 and 1,
/// which are valid token ids everywhere. nullptr for a dtype that this example makes none of.
executorch::extension::TensorPtr make_tensor(executorch::aten::ScalarType dtype,
                                             const std::vector<int64_t>& sizes);

/// "[1, 128, 256]".
std::string shape_text(const std::vector<int64_t>& sizes);
std::string shape_text(const executorch::aten::Tensor& tensor);

/// The method "forward". What goes wrong is said on stderr.
class Model {
 public:
  /// nullptr if the file cannot be loaded.
  static std::unique_ptr<Model> load(const std::string& path);

  const std::vector<std::shared_ptr<const DelegateInfo>>& delegates() const { return delegates_; }
  /// Of the whole method: its delegates have the same names in the same order.
  const std::vector<ProfileInfo>& profiles() const { return delegates_.front()->profiles(); }
  /// The profile of the last execution, by name.
  std::string last_profile() const;

  /// One tensor an input, in the sizes that the profile is tuned for; nullopt if they cannot be
  /// known or made.
  std::optional<Tensors> make_inputs(const ProfileInfo& profile) const;

  /// nullopt if it failed. Outputs hold until the next execution.
  std::optional<Values> execute(const Tensors& inputs);

 private:
  explicit Model(const std::string& path);

  executorch::extension::Module module_;
  std::vector<std::shared_ptr<const DelegateInfo>> delegates_;
};

}  // namespace multi_profile
