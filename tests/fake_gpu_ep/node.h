#pragma once

#include <memory>
#include <vector>

#include "api.h"
#include "kernels.h"

namespace fake_gpu {

/// One node of a model, compiled for a device: what ONNX Runtime calls to compute it.
class Node final : public OrtNodeComputeInfo {
 public:
  /// \param graph The one node, as ONNX Runtime hands it to be compiled.
  /// \param fused What stands for it in the model: its inputs may come in another order, and one
  ///   that is used twice comes once.
  /// \throws std::runtime_error if the node is not one that `takes` took.
  Node(const OrtGraph& graph, const OrtNode& fused, int device);

  /// Tell whether the provider has a kernel for `node`.
  static bool takes(const OrtNode& node);

 private:
  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self,
                                              OrtNodeComputeContext* context, void** state);
  static OrtStatus* ORT_API_CALL compute_in(OrtNodeComputeInfo* self, void* state,
                                            OrtKernelContext* context);
  static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state);

  void run(OrtKernelContext& context) const;

  Op op_ = Op::Identity;
  int device_;
  // For each of the node's inputs, the number of the fused node's.
  std::vector<size_t> inputs_;
};

/// The nodes of `graph`.
std::vector<const OrtNode*> nodes_of(const OrtGraph& graph);

}  // namespace fake_gpu
