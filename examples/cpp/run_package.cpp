// Runs an AOTInductor package that holds an ONNX model, without Python.
#include <ortdl/ortdl.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include "common.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: run_package LIBONNXRUNTIME.SO PACKAGE.PT2\n";
    return 2;
  }
  ortdl::load_runtime(argv[1]);  // before the package, which makes a session as it loads
  torch::inductor::AOTIModelPackageLoader package(argv[2]);
  const std::vector<at::Tensor> outputs = package.run({features()});
  print("probability", outputs.at(0));
  print("class", outputs.at(1));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
