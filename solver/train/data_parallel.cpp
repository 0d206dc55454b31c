#include "solver/train/data_parallel.hpp"

#include "parallel/device_messages.hpp"
#include "solver/tensor/operator_clock.hpp"

namespace tessera {
namespace {

std::vector<GradientReducer::Parameter> descriptions(const std::vector<NamedTensor>& parameters) {
  std::vector<GradientReducer::Parameter> result;
  for (const NamedTensor& p : parameters)
    result.push_back({p.name, p.tensor.local_count(), p.tensor.dtype()});
  return result;
}

}  // namespace

DataParallel::DataParallel(const Mesh& mesh, std::vector<NamedTensor> parameters,
                           GradientReducerOptions options) {
  std::vector<NamedTensor> plain, sharded;
  for (NamedTensor& p : parameters) (p.tensor.is_shard() ? sharded : plain).push_back(p);
  const int ddp = mesh.axis_size("ddp");
  add_reducer(mesh.comm_ptr(), mesh.without("ddp"), ddp, plain, options);
  // Each domain rank owns its cells: only the replicas along ddp hold the same ones.
  const std::string axis = "ddp";
  if (!sharded.empty()) add_reducer(mesh.sub({&axis, 1}).comm_ptr(), {}, ddp, sharded, options);
  broadcast_parameters(mesh, parameters);
  for (const NamedTensor& p : parameters) parameters_.push_back(p.tensor);
}

void DataParallel::add_reducer(const CommPtr& comm, const Mesh& domain, int ddp,
                               const std::vector<NamedTensor>& parameters,
                               const GradientReducerOptions& options) {
  auto reducer = std::make_shared<GradientReducer>(comm, ddp, descriptions(parameters), options);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i].tensor;
    const int index = static_cast<int>(i);
    const Tensor gradient = Tensor::wrap(reducer, reducer->gradient(index), p.local_shape(), p.dtype());
    p.set_grad(p.is_shard() ? gradient.with_layout(p.layout()) : gradient);
    if (!p.is_shard()) p.defer_domain_sum(domain);
    p.register_post_accumulate_hook([reducer, index, last = last_] {
      if (*last) reducer->mark_ready(index);
    });
  }
  reducers_.push_back(std::move(reducer));
}

void DataParallel::zero_grad() {
  for (auto& reducer : reducers_) reducer->start();
  // Cleared by what comes first instead of by a pass of its own.
  for (const Tensor& p : parameters_) p.forget_grad();
}

void DataParallel::finish() {
  const OperatorTimer timer("gradient reducer", false);
  for (const Tensor& p : parameters_) p.grad();  // zero where nothing came
  for (auto& reducer : reducers_) reducer->finish();
}

void broadcast_parameters(const Mesh& mesh, const std::vector<NamedTensor>& parameters) {
  const CommScope scope("broadcast of parameters");
  for (const NamedTensor& p : parameters) {
    if (p.tensor.local_count() == 0) continue;
    Communicator& comm = p.tensor.is_shard() ? mesh.axis_comm("ddp") : mesh.comm();
    device_broadcast(comm, p.tensor.raw(), p.tensor.local_count(), p.tensor.dtype(), 0);
  }
}

}  // namespace tessera
