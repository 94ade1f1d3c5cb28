#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/memory/arena.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/system_region.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::towpath::memory::testing::EventLog;
using ::towpath::memory::testing::RecordingRegistrar;

/// Heap bytes that write down when they are freed.
class LoudRegion final : public Region {
 public:
  LoudRegion(EventLog& log, std::string name, std::size_t size_bytes = 64)
      : log_(log), name_(std::move(name)), bytes_(size_bytes) {}
  ~LoudRegion() override { log_.add("free " + name_); }

  RegionDescriptor descriptor() const override {
    return {
        .kind = MemoryKind::system, .address = address_of(bytes_.data()), .length = bytes_.size()};
  }

 private:
  EventLog& log_;
  const std::string name_;
  std::vector<std::byte> bytes_;
};

class RegisteredTest : public ::testing::Test {
 protected:
  std::shared_ptr<LoudRegion> loud(std::string name = "x") {
    return std::make_shared<LoudRegion>(log_, std::move(name));
  }
  Registered<LoudRegion> registered(Registrar& registrar, std::string name = "x") {
    auto memory = register_with(loud(std::move(name)), registrar);
    EXPECT_TRUE(memory.ok()) << memory.status().to_string();
    return *std::move(memory);
  }
  /// An agent that does not keep regions alive, so that freeing too early is caught.
  std::unique_ptr<RecordingRegistrar> strict_agent(std::string name = "a") {
    return std::make_unique<RecordingRegistrar>(
        log_, RecordingRegistrar::Options{.name = std::move(name), .keeps_regions = false});
  }

  EventLog log_;
};

TEST_F(RegisteredTest, reports_agent_descriptor_state_and_storage) {
  const auto agent = strict_agent("agent-7");
  const auto storage = loud();
  auto memory = register_with(storage, *agent);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(memory.status().ok());
  EXPECT_EQ(memory->agent_name(), "agent-7");
  EXPECT_EQ(memory->descriptor().address, storage->descriptor().address);
  EXPECT_EQ(memory->registration()->descriptor().length, 64u);
  EXPECT_THAT(memory->registration()->backends(), ElementsAre("fake"));
  EXPECT_TRUE(memory->is_registered());
  EXPECT_EQ(memory->storage(), storage);
}

TEST_F(RegisteredTest, deregisters_before_it_frees) {
  const auto agent = strict_agent();
  { const auto memory = registered(*agent); }
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a", "free x"));
}

TEST_F(RegisteredTest, outlives_its_agent) {
  auto agent = strict_agent();
  auto memory = std::make_unique<Registered<LoudRegion>>(registered(*agent));
  agent.reset();
  EXPECT_FALSE(memory->is_registered());
  EXPECT_EQ(memory->agent_name(), "a");
  EXPECT_EQ(memory->size(), 64u);
  memory.reset();
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a", "destroy a", "free x"));
}

TEST_F(RegisteredTest, assigning_over_it_deregisters_before_it_frees) {
  const auto agent = strict_agent();
  {
    auto memory = registered(*agent, "old");
    memory = registered(*agent, "new");
    EXPECT_THAT(log_.events(), ElementsAre("register a", "register a", "release a", "free old"));
    EXPECT_TRUE(memory.is_registered());
  }
  EXPECT_THAT(log_.events(), ElementsAre("register a", "register a", "release a", "free old",
                                         "release a", "free new"));
}

TEST_F(RegisteredTest, moved_from_it_is_empty_and_harmless) {
  const auto agent = strict_agent();
  auto memory = registered(*agent);
  {
    auto other = std::move(memory);
    EXPECT_FALSE(memory.is_registered());  // NOLINT: moved from is empty
    EXPECT_EQ(memory.storage(), nullptr);
    EXPECT_EQ(memory.agent_name(), "");
    EXPECT_EQ(memory.size(), 0u);
    EXPECT_EQ(memory.into_storage().code(), Code::not_ready);
    auto* same = &other;
    other = std::move(*same);
    EXPECT_TRUE(other.is_registered());
  }
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a", "free x"));
}

TEST_F(RegisteredTest, views_and_buffers_over_it_keep_the_registration) {
  const auto agent = strict_agent();
  auto memory = std::make_shared<Registered<LoudRegion>>(registered(*agent));
  auto view = *View::create(memory, {.offset = 8, .size_bytes = 8});
  auto buffer = *Arena::create(memory, {.page_size_bytes = 16})->allocate(16);
  memory.reset();
  ASSERT_NE(view->registration(), nullptr);
  EXPECT_EQ(view->registration()->agent_name(), "a");
  ASSERT_NE(buffer.registration(), nullptr);
  EXPECT_TRUE(buffer.registration()->is_registered());
  view.reset();
  EXPECT_THAT(log_.events(), ElementsAre("register a"));
  buffer = ArenaBuffer();
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a", "free x"));
}

TEST_F(RegisteredTest, into_storage_deregisters_and_gives_the_memory_back) {
  const auto agent = strict_agent();
  auto memory = registered(*agent);
  auto storage = memory.into_storage();
  ASSERT_TRUE(storage.ok());
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a"));
  EXPECT_EQ((*storage)->size(), 64u);
  EXPECT_EQ(storage->use_count(), 1);
  EXPECT_FALSE(memory.is_registered());
  storage->reset();
  EXPECT_THAT(log_.events(), ElementsAre("register a", "release a", "free x"));
}

TEST_F(RegisteredTest, into_storage_keeps_what_is_not_quiesced_and_can_be_tried_again) {
  const auto agent = strict_agent();
  auto memory = registered(*agent);
  agent->fail_next_release(error(Code::not_ready, "still in flight"));
  EXPECT_EQ(memory.into_storage().code(), Code::not_ready);
  EXPECT_NE(memory.storage(), nullptr);
  EXPECT_TRUE(memory.is_registered());
  EXPECT_TRUE(memory.into_storage().ok());
}

TEST_F(RegisteredTest, into_storage_works_after_the_agent_died) {
  auto agent = strict_agent();
  auto memory = registered(*agent);
  agent.reset();
  EXPECT_TRUE(memory.into_storage().ok());
}

TEST_F(RegisteredTest, a_failed_registration_returns_the_storage_and_the_cause) {
  const auto agent = strict_agent();
  agent->fail_next_register(error(Code::denied, "memlock limit of 8 MiB"));
  auto storage = loud();
  const LoudRegion* const same = storage.get();
  auto memory = register_with(std::move(storage), *agent);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.storage().get(), same);
  EXPECT_EQ(memory.storage().use_count(), 1);
  EXPECT_EQ(memory.code(), Code::denied);
  EXPECT_THAT(memory.status().to_string(), HasSubstr("agent 'a'"));
  EXPECT_EQ(memory.status().cause().message(), "memlock limit of 8 MiB");
  EXPECT_THAT(log_.events(), IsEmpty());
}

TEST_F(RegisteredTest, errors_of_the_registrar_come_through) {
  const auto agent = strict_agent();
  EXPECT_EQ(register_with(std::shared_ptr<LoudRegion>(), *agent).code(), Code::invalid_argument);
  EXPECT_EQ(register_with(std::make_shared<LoudRegion>(log_, "empty", 0), *agent).code(),
            Code::invalid_argument);
  EXPECT_EQ(register_with(loud(), *agent, {.backends = {"rdma"}}).code(), Code::not_found);
  auto device =
      *BorrowedRegion::create({.kind = MemoryKind::device, .address = 4096, .size_bytes = 64});
  EXPECT_EQ(register_with(device, *agent).code(), Code::unsupported);
}

TEST_F(RegisteredTest, a_user_type_comes_back_whole) {
  struct Tensor {
    std::vector<std::byte> data = std::vector<std::byte>(16);
    const std::byte* address() const { return data.data(); }
    std::uint64_t size() const { return data.size(); }
    MemoryKind kind() const { return MemoryKind::system; }
    std::uint64_t device_id() const { return 0; }
  };
  const auto agent = strict_agent();
  auto memory = register_with(*UserRegion<Tensor>::create(Tensor{}), *agent);
  ASSERT_TRUE(memory.ok());
  auto region = memory->into_storage();
  ASSERT_TRUE(region.ok());
  auto tensor = UserRegion<Tensor>::take(*region);
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_EQ(tensor->data.size(), 16u);
}

TEST_F(RegisteredTest, registering_again_is_no_work) {
  const auto agent = strict_agent();
  auto again = register_with(registered(*agent), *agent);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->is_registered());
  auto named = register_with(*std::move(again), *agent, {.backends = {"fake"}});
  ASSERT_TRUE(named.ok());
  auto either = register_with(*std::move(named), *agent,
                              {.backends = {"rdma", "fake"}, .any_of_named = true});
  ASSERT_TRUE(either.ok()) << "one of them takes it";
  EXPECT_THAT(log_.events(), ElementsAre("register a"));
}

TEST_F(RegisteredTest, registering_again_elsewhere_says_where_it_is_and_keeps_it) {
  const auto agent = strict_agent("a");
  const auto other = strict_agent("b");
  auto memory = register_with(registered(*agent), *other);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.code(), Code::already_exists);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("with agent 'a' (fake)"));
  EXPECT_TRUE(memory.storage().is_registered());
  auto more = register_with(std::move(memory.storage()), *agent, {.backends = {"rdma"}});
  EXPECT_EQ(more.code(), Code::already_exists);
  EXPECT_TRUE(more.storage().is_registered());
}

TEST_F(RegisteredTest, after_its_agent_died_it_can_be_registered_anew) {
  auto first = strict_agent("a");
  auto memory = registered(*first);
  first.reset();
  const auto second = strict_agent("b");
  second->fail_next_register(error(Code::unavailable, "not now"));
  auto failed = register_with(std::move(memory), *second);
  ASSERT_FALSE(failed.ok());
  ASSERT_NE(failed.storage().storage(), nullptr);
  EXPECT_FALSE(failed.storage().is_registered());
  auto anew = register_with(std::move(failed.storage()), *second);
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(anew->agent_name(), "b");
  EXPECT_TRUE(anew->is_registered());
}

TEST_F(RegisteredTest, one_memory_may_be_known_to_two_agents) {
  const auto agent = strict_agent("a");
  const auto other = strict_agent("b");
  {
    auto inner = std::make_shared<Registered<LoudRegion>>(registered(*agent));
    auto outer = register_with(std::move(inner), *other);
    ASSERT_TRUE(outer.ok());
    EXPECT_EQ(outer->agent_name(), "b");
    EXPECT_EQ(outer->storage()->agent_name(), "a");
  }
  EXPECT_THAT(log_.events(),
              ElementsAre("register a", "register b", "release b", "release a", "free x"));
}

TEST_F(RegisteredTest, the_same_storage_twice_is_two_registrations) {
  const auto agent = strict_agent();
  const auto storage = loud();
  auto first = *register_with(storage, *agent);
  auto second = *register_with(storage, *agent);
  EXPECT_EQ(agent->registered(), 2u);
  EXPECT_TRUE(first.into_storage().ok());
  EXPECT_TRUE(second.is_registered());
  EXPECT_EQ(agent->registered(), 1u);
}

Status use_it(Registrar& registrar, std::shared_ptr<LoudRegion> storage) {
  TOWPATH_TRY(auto memory, register_with(std::move(storage), registrar));
  return memory.is_registered() ? Status() : error(Code::internal, "not registered");
}

TEST_F(RegisteredTest, try_takes_the_value_or_returns_the_failure) {
  const auto agent = strict_agent();
  EXPECT_TRUE(use_it(*agent, loud()).ok());
  agent->fail_next_register(error(Code::denied, "no"));
  EXPECT_EQ(use_it(*agent, loud()).code(), Code::denied);
}

TEST(RegistrationTest, a_failed_release_can_be_tried_again) {
  EventLog log;
  RecordingRegistrar agent(log, {});
  Registration registration = *agent.register_region(*SystemRegion::allocate(1), RegisterOptions{});
  agent.fail_next_release(error(Code::not_ready, "in flight"));
  EXPECT_EQ(registration.release().code(), Code::not_ready);
  EXPECT_TRUE(registration.is_registered());
  EXPECT_TRUE(registration.release().ok());
  EXPECT_FALSE(registration.is_registered());
  EXPECT_TRUE(registration.release().ok());
  EXPECT_EQ(agent.registered(), 0u);
}

TEST(RegistrationTest, keeps_the_region_alive_until_it_is_released) {
  EventLog log;
  RecordingRegistrar agent(log, {.name = "a"});
  auto region = std::make_shared<LoudRegion>(log, "x");
  Registration registration = *agent.register_region(region, RegisterOptions{});
  region.reset();
  EXPECT_THAT(log.events(), ElementsAre("register a"));
  EXPECT_TRUE(registration.release().ok());
  EXPECT_THAT(log.events(), ElementsAre("register a", "release a", "free x"));
}

}  // namespace
}  // namespace towpath::memory
