#include "graph.h"

#include <utility>

namespace emulator {
namespace {

Handles<cudaGraph_t, Graph>& graphs() {
  static auto& handles = *new Handles<cudaGraph_t, Graph>;
  return handles;
}

/// A copy of the graph, as later changes of that don't reach it.
Handles<cudaGraphExec_t, Graph>& executables() {
  static auto& handles = *new Handles<cudaGraphExec_t, Graph>;
  return handles;
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t handle) {
  const auto graph = graphs().find(handle);
  if (graph == nullptr) {
    return cudaErrorInvalidValue;
  }
  *executable = executables().add(std::make_shared<Graph>(*graph));
  return cudaSuccess;
}

}  // namespace

void Graph::replay(Lock& lock) const {
  std::vector<bool> done(nodes.size());
  const auto run = [&](const auto& self, std::size_t index) -> void {
    if (done[index]) {
      return;
    }
    done[index] = true;
    for (const std::size_t earlier : nodes[index].after) {
      self(self, earlier);
    }
    nodes[index].work(lock);
  };
  for (std::size_t index = nodes.size(); index-- > 0;) {
    run(run, index);
  }
}

Nodes Graph::reachable(const Nodes& ends) const {
  Nodes found;
  std::vector<std::size_t> left(ends.begin(), ends.end());
  while (!left.empty()) {
    const std::size_t index = left.back();
    left.pop_back();
    if (found.insert(index).second) {
      left.insert(left.end(), nodes[index].after.begin(), nodes[index].after.end());
    }
  }
  return found;
}

cudaGraph_t add_graph(std::shared_ptr<Graph> graph) { return graphs().add(std::move(graph)); }

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  return call("cudaGraphInstantiate", [&](Lock&) { return instantiate(executable, graph); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return call("cudaGraphInstantiateWithFlags",
              [&](Lock&) { return instantiate(executable, graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&](Lock&) {
    const auto graph = graphs().find(handle);
    if (graph == nullptr) {
      return cudaErrorInvalidValue;
    }
    if (nodes != nullptr) {
      return cudaErrorNotSupported;
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return call_on(stream_handle, "cudaGraphLaunch", [&](Lock&) {
    const auto graph = executables().find(handle);
    const auto stream = find_stream(stream_handle);
    if (graph == nullptr || stream == nullptr) {
      return cudaErrorInvalidValue;
    }
    return submit(stream, [graph](Lock& lock) { graph->replay(lock); });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&](Lock&) {
    return graphs().remove(graph) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call("cudaGraphExecDestroy", [&](Lock&) {
    return executables().remove(executable) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
