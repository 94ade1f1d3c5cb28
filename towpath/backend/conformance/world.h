// World: two agents of this process, a pool of memory at each, and a model of what transfers do.
//
// `near` starts transfers; `far` is the other side, which is `near` itself where bytes go to the
// agent's own memory. The model is a plain copy of both pools; check() compares every byte of both,
// so a byte outside of the targets is found like one inside.
// Thread: none of its own; a test that uses threads drives the agents itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backend/conformance/test_memory.h>
#include <towpath/sys/clock.h>

namespace towpath::backend::conformance {

/// One transfer's extents; addresses are offsets into the pools.
struct Shape {
  std::vector<StridedDescriptor> near;
  std::vector<StridedDescriptor> far;
};

/// `count` equal extents at `offset`, `stride` apart, as one entry or as many.
struct Row {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
  std::uint64_t count = 1;
};
std::vector<StridedDescriptor> strided(const Row& row);
std::vector<StridedDescriptor> plain(const Row& row);
/// The same extents in another order.
std::vector<StridedDescriptor> shuffled(std::vector<StridedDescriptor> list, std::uint64_t seed);

struct AgentSetup {
  std::string name;
  std::size_t inbox_messages = 65536;
  Duration quiesce_timeout = std::chrono::seconds(10);
};
Result<std::unique_ptr<agent::Agent>> make_agent(const Candidate& candidate,
                                                 const Registry& registry, const Clock& clock,
                                                 const AgentSetup& setup);

/// Makes progress on all agents until `done`, which is asked once a round and may act. False: the
/// watchdog barked.
bool run_until(const std::vector<agent::Agent*>& agents, const std::function<bool()>& done);
/// Lets time and progress pass, so that a late byte would have come.
void linger(const std::vector<agent::Agent*>& agents);

class World {
 public:
  struct Options {
    std::uint64_t pool_bytes = 4 * kMiB;
    std::size_t far_inbox_messages = 65536;
  };
  World(const Candidate& candidate, const Pairing& pairing, const Options& options);
  World(const Candidate& candidate, const Pairing& pairing)
      : World(candidate, pairing, Options()) {}

  /// False: something could not be made; the test has failed and ends.
  bool ready() const noexcept { return ready_; }

  agent::Agent& near() { return *near_; }
  agent::Agent& far() { return far_ ? *far_ : *near_; }
  const std::string& far_name() { return far().name(); }
  std::vector<agent::Agent*> agents();

  /// New bytes in both pools, and the model of them.
  void fill(std::uint64_t seed);
  Result<agent::Transfer> make(TransferOp op, const Shape& shape,
                               const agent::TransferOptions& options = {});
  /// Posts, waits for the end, and expects `done`.
  void finish(agent::Transfer& transfer, const agent::PostOptions& options = {});
  /// Expects both pools to be what `shape` makes of the last fill().
  void check(TransferOp op, const Shape& shape);
  /// fill, make, finish, check.
  void move(TransferOp op, const Shape& shape);

  bool run_until(const std::function<bool()>& done) {
    return conformance::run_until(agents(), done);
  }
  void linger() { conformance::linger(agents()); }
  bool run_to_end(const agent::Transfer& transfer) {
    return run_until([&] { return transfer.ended(); });
  }
  const TestMemory& target(TransferOp op) const {
    return op == TransferOp::read ? near_memory : far_memory;
  }
  /// Expects that nothing writes to the target of `op` any more.
  void expect_quiesced(TransferOp op);

  Status introduce();

  TestMemory near_memory, far_memory;
  memory::Registration near_pool, far_pool;

 private:
  Status open(const Candidate& candidate, const Pairing& pairing, const Options& options);

  sys::SystemClock clock_;
  Registry registry_;
  std::unique_ptr<agent::Agent> near_, far_;
  Bytes near_before_, far_before_;
  Bytes near_expected_, far_expected_, found_;  // of check(): kept, since fresh pages cost
  std::uint64_t fills_ = 0;
  bool ready_ = false;

 public:
  void end_near() { near_.reset(); }
  void end_far() { far_.reset(); }
};

/// Plays `shape` on plain bytes.
void play(TransferOp op, const Shape& shape, Bytes& near, Bytes& far);
/// The same extents, `base` further on, as the agent wants them.
DescriptorList list_of(const std::vector<StridedDescriptor>& entries, const TestMemory& memory);
DescriptorList list_of(const std::vector<StridedDescriptor>& entries,
                       const RegionDescriptor& region);

}  // namespace towpath::backend::conformance
