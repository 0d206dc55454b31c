#pragma once

// What tests of the backward pass share.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/sharded.hpp"

namespace tessera::testing {

using Values = std::vector<double>;

inline Tensor leaf(const Values& values, const Shape& shape, const Layout& layout = {}) {
  const Tensor t = tensor_of(values, shape, DType::f64, layout);
  t.set_requires_grad();
  return t;
}

inline Tensor leaf(const Values& values) {
  return leaf(values, Shape{static_cast<Index>(values.size())});
}

/// Expects an Error whose text contains all of `parts`.
inline void expect_error(const std::function<void()>& body, std::initializer_list<const char*> parts) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    for (const char* part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nwithout " << part;
  }
}

/// Runs `body` with a layout of (8, 6) for every mesh, and the plain one first.
inline void on_layouts(const std::function<void(const Layout&)>& body) {
  Random random(21);
  for (const Mesh& mesh : meshes(2)) {
    for (const Cuts cuts : {Cuts::uneven, Cuts::empty})
      body(random_layout(random, mesh, {8, 6}, {0, 1}, cuts));
  }
}

}  // namespace tessera::testing
