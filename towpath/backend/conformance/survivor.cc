#include <gtest/gtest.h>

#include <towpath/backend/conformance/survivor.h>

namespace towpath::backend::conformance {

Survivor::Survivor(const Candidate& candidate, Store store) : registry_(candidate.make_registry()) {
  auto made = make_agent(candidate, registry_, clock_, {.name = "near"});
  auto memory_made = TestMemory::make(store, kSurvivorPool);
  ready = made.ok() && memory_made.ok();
  EXPECT_TRUE(ready) << made.status().to_string();
  if (!ready) return;
  agent = *std::move(made);
  memory = *std::move(memory_made);
  auto registered = agent->register_region(memory.region());
  EXPECT_TRUE(registered.ok()) << registered.status().to_string();
  if (registered.ok()) pool_ = *std::move(registered);
}

void Survivor::meet(const PeerProcess& peer) {
  const auto loaded = agent->load_metadata(peer.metadata());
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  ASSERT_TRUE(peer.load_metadata(*agent->metadata()));
}

Result<agent::Transfer> Survivor::make(TransferOp op, const TestMemory& local,
                                       const PeerProcess& peer,
                                       const agent::TransferOptions& options) {
  constexpr std::uint64_t kPart = kSurvivorPool / 64;
  const auto whole = strided({.length = kPart, .stride = kPart, .count = 64});
  return agent->create_transfer(op, list_of(whole, local), peer.name(),
                                list_of(whole, peer.region()), options);
}

void Survivor::expect_traffic(const PeerProcess& peer) {
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    memory.write(random_bytes(1, kSurvivorPool));
    peer.fill(2);
    auto transfer = make(op, memory, peer);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_TRUE(transfer->post().ok());
    ASSERT_TRUE(run_until([&] { return transfer->ended(); })) << "it never ended";
    ASSERT_EQ(transfer->outcome(), Outcome::done) << transfer->status().to_string();
    const Bytes expected = random_bytes(op == TransferOp::read ? 2 : 1, kSurvivorPool);
    EXPECT_TRUE(memory.read() == expected);
    EXPECT_EQ(peer.digest(), digest_of(expected));
  }
}

}  // namespace towpath::backend::conformance
