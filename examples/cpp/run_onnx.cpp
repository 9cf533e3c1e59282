// Runs an ONNX file on tensors, without Python.
#include <ortdl/ortdl.h>

#include "common.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: run_onnx LIBONNXRUNTIME.SO MODEL.ONNX\n";
    return 2;
  }
  ortdl::load_runtime(argv[1]);
  const auto session = c10::make_intrusive<ortdl::Session>(ortdl::SessionConfig{.path = argv[2]});
  const std::vector<at::Tensor> outputs = session->run({features()});
  for (size_t i = 0; i < outputs.size(); ++i) {
    print(session->outputs()[i].name, outputs[i]);
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
