#include <gtest/gtest.h>
#include <ortdl/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

// ORTDL_RUNTIME names the libonnxruntime.so to test with. ORTDL_DETACHED keeps it from being
// loaded, for tests of a process that has no runtime yet.
int main(int argc, char** argv) try {
  ::testing::InitGoogleTest(&argc, argv);
  const char* path = std::getenv("ORTDL_RUNTIME");
  if (path == nullptr) {
    static_cast<void>(std::fputs("set ORTDL_RUNTIME to the path of a libonnxruntime.so\n", stderr));
    return EXIT_FAILURE;
  }
  if (std::getenv("ORTDL_DETACHED") == nullptr) {
    ortdl::load_runtime(path);
  }
  return RUN_ALL_TESTS();
} catch (const std::exception& error) {
  static_cast<void>(std::fprintf(stderr, "%s\n", error.what()));
  return EXIT_FAILURE;
}
