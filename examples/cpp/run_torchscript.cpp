// Runs a TorchScript file that holds an ONNX model, without Python.
#include <ortdl/ortdl.h>
#include <torch/script.h>

#include "common.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: run_torchscript LIBONNXRUNTIME.SO MODULE.PT\n";
    return 2;
  }
  ortdl::load_runtime(argv[1]);  // before the file, which makes a session as it loads
  torch::jit::Module module = torch::jit::load(argv[2]);
  const auto outputs = module.forward({features()}).toTuple();
  print("probability", outputs->elements()[0].toTensor());
  print("class", outputs->elements()[1].toTensor());
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
