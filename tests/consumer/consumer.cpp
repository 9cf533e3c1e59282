// Somebody else's program, without Python: prints what the installed library does and says.
#include <ATen/ops/full.h>
#include <ortdl/ortdl.h>

#include <iostream>

namespace {

// Prints the error that `call` throws.
template <typename Call>
void print_error(Call call) {
  try {
    static_cast<void>(call());
    std::cout << "nothing was thrown\n";
  } catch (const c10::Error& error) {
    std::cout << error.what_without_backtrace() << '\n';
  }
}

ortdl::SessionPtr load(const std::string& path) {
  return c10::make_intrusive<ortdl::Session>(ortdl::SessionConfig{.path = path});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: consumer LIBONNXRUNTIME.SO MODEL.ONNX\n";
    return 2;
  }
  const char* runtime = argv[1];
  const char* model = argv[2];
  const at::Tensor tensor = at::full({2}, 1.5);

  print_error([&] { return ortdl::Value::from_tensor(tensor); });
  print_error([&] { return load(model); });
  print_error([] { ortdl::load_runtime("no/such/file.so"); });
  print_error([] { ortdl::load_runtime("libm.so.6"); });
  ortdl::load_runtime(runtime);
  print_error([] { return load("no/such/model.onnx"); });

  const ortdl::ValuePtr value = ortdl::Value::from_tensor(tensor);
  std::cout << (value->to_tensor().const_data_ptr() == tensor.const_data_ptr()) << '\n';
  const at::Tensor output = load(model)->run({tensor}).at(0);
  std::cout << output[0].item<float>() << ' ' << output[1].item<float>() << '\n';
}
