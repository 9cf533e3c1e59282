#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <iomanip>
#include <iostream>
#include <string>

/// What the programs are run on, as in make_models.py: two rows of three features.
inline at::Tensor features() { return at::arange(6, at::kFloat).div(7).reshape({2, 3}); }

/// Prints every element of `tensor`. Nine digits tell any float from its neighbours.
inline void print(const std::string& name, const at::Tensor& tensor) {
  std::cout << name << ' ' << tensor.sizes() << std::setprecision(9);
  const at::Tensor flat = tensor.to(at::kDouble).flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    std::cout << ' ' << flat.const_data_ptr<double>()[i];
  }
  std::cout << '\n';
}
