#include <gtest/gtest.h>
#include <ortdl/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "fake/accelerator.h"

// ORTDL_RUNTIME names the libonnxruntime.so to test with, ORTDL_FAKE the fake accelerator.
int main(int argc, char** argv) try {
  ::testing::InitGoogleTest(&argc, argv);
  const char* path = std::getenv("ORTDL_RUNTIME");
  const char* accelerator = std::getenv("ORTDL_FAKE");
  if (path == nullptr || accelerator == nullptr) {
    static_cast<void>(
        std::fputs("set ORTDL_RUNTIME to the path of a libonnxruntime.so, and ORTDL_FAKE to cuda, "
                   "hip or rocm\n",
                   stderr));
    return EXIT_FAILURE;
  }
  ortdl::test::fake::install(accelerator);
  ortdl::load_runtime(path);
  return RUN_ALL_TESTS();
} catch (const std::exception& error) {
  static_cast<void>(std::fprintf(stderr, "%s\n", error.what()));
  return EXIT_FAILURE;
}
