#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "stream.h"

/// \file
/// What a capture leaves behind: work and what it depends on, to be run as often as one likes.
namespace emulator {

/// Indices of nodes in a graph.
using Nodes = std::set<std::size_t>;

struct Node {
  Work work;
  Nodes after;
};

struct Graph {
  std::vector<Node> nodes;

  /// Runs every node after those it depends on, and else the newest first: two nodes whose order
  /// nobody asked for run in the order that nobody expects.
  void replay(Lock& lock) const;

  /// The nodes that `ends` depend on, and `ends` themselves.
  [[nodiscard]] Nodes reachable(const Nodes& ends) const;
};

[[nodiscard]] cudaGraph_t add_graph(std::shared_ptr<Graph> graph);

}  // namespace emulator
