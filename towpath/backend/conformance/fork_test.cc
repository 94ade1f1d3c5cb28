// Conformance: a forked child has a copy of the agents, and lets go of it.
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

class ForkConformance : public PairingTest {
 protected:
  static Shape shape() {
    const Row row{.offset = 4096, .length = 1000, .stride = 4096, .count = 50};
    return {strided(row), strided(row)};
  }
  /// What a child does with what it has inherited; how it exits.
  static int let_go(std::unique_ptr<World> world, agent::Transfer transfer) {
    ::alarm(120);  // what hangs must end
    if (!world->near().is_inherited() || world->near().progress()) return 1;
    if (transfer.post().code() != Code::not_ready) return 2;
    if (world->near().metadata().code() != Code::not_ready) return 3;
    if (world->near().peer(world->far_name()).code() != Code::not_ready) return 5;
    if (!transfer.explain().candidates.empty()) return 6;
    if (world->near_pool.release().code() != Code::not_ready) return 4;
    transfer = agent::Transfer();
    world->near_pool = memory::Registration();
    world.reset();
    return 0;
  }
  void expect_messages(World& world) {
    if (!candidate().no_messages.empty()) return;
    ASSERT_TRUE(world.near().notify(world.far_name(), as_bytes("still here")).ok());
    std::vector<agent::Notification> come;
    ASSERT_TRUE(world.run_until([&] {
      come = world.far().take_notifications();
      return !come.empty();
    }));
    EXPECT_EQ(as_text(come.front().message), "still here");
  }
};

TEST_P(ForkConformance, forked_child_that_lets_go_leaves_its_parent_alone) {
  auto world = std::make_unique<World>(candidate(), pairing());
  ASSERT_TRUE(world->ready());
  for (const TransferOp op : ways()) ASSERT_NO_FATAL_FAILURE(world->move(op, shape()));
  auto transfer = world->make(ways().front(), shape());
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(let_go(std::move(world), *std::move(transfer)));
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status) << ", signal " << WTERMSIG(status);
  ASSERT_NO_FATAL_FAILURE(world->finish(*transfer));
  for (const TransferOp op : ways()) ASSERT_NO_FATAL_FAILURE(world->move(op, shape()));
  ASSERT_NO_FATAL_FAILURE(expect_messages(*world));
  EXPECT_TRUE(world->near_pool.release().ok());
}

INSTANTIATE_TEST_SUITE_P(Backend, ForkConformance, testing::ValuesIn(all_pairings()), Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ForkConformance);

}  // namespace
}  // namespace towpath::backend::conformance
