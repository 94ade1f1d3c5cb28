#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/testing/backend_stand.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/sys/fd.h>

namespace towpath::staging {
namespace {

using backend::Import;
using backend::Segment;
using device::testing::FakeCuda;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kSize = 1U << 20U;

struct NamedMemory final : backend::Memory {
  explicit NamedMemory(std::string its_name) : name(std::move(its_name)) {}
  const std::string name;
};

/// A store of objects and files that keeps nothing but what it is asked for: a text for each
/// request.
class NotingStore final : public backend::Backend {
 public:
  NotingStore(backend::Events& events, std::vector<std::string>& noted)
      : events_(events), noted_(noted) {
    for (const MemoryKind remote : {MemoryKind::object, MemoryKind::disk})
      can_.pairs.push_back({.local = MemoryKind::pinned, .remote = remote, .to_self = true});
  }
  const backend::Capabilities& capabilities() const override { return can_; }
  Result<std::unique_ptr<backend::Memory>> register_memory(
      const RegionDescriptor& region) override {
    return std::make_unique<NamedMemory>(region.key);
  }
  Result<std::unique_ptr<backend::Connection>> connect(const AgentIdentity&,
                                                       ConstByteSpan) override {
    return std::make_unique<backend::Connection>();
  }
  Result<std::unique_ptr<backend::Memory>> import_memory(backend::Connection&,
                                                         const RegionDescriptor& region,
                                                         ConstByteSpan) override {
    return std::make_unique<NamedMemory>(region.key);
  }
  std::unique_ptr<backend::Operation> make_operation() override {
    return std::make_unique<Noting>(*this);
  }
  bool progress() override { return false; }
  std::string describe_path(const backend::Memory&, const backend::Memory&) const override {
    return "noted";
  }

 private:
  class Noting final : public backend::Operation {
   public:
    explicit Noting(NotingStore& store) : store_(store) {}
    void post(const backend::Request& request) override {
      std::string text;
      for (const Segment& one : request.segments)
        text += cat(static_cast<NamedMemory*>(one.remote)->name, one.remote_address, "+",
                    one.length, " ");
      store_.noted_.push_back(text);
      store_.events_.on_complete(*this, {});
    }
    void cancel() override {}

   private:
    NotingStore& store_;
  };

  backend::Events& events_;
  std::vector<std::string>& noted_;
  backend::Capabilities can_;
};

backend::BackendType noting_type(std::vector<std::string>& noted) {
  backend::BackendType type;
  type.name = "noting";
  type.kinds = {MemoryKind::pinned, MemoryKind::object, MemoryKind::disk};
  type.open =
      [&noted](
          const backend::BackendContext& context) -> Result<std::unique_ptr<backend::Backend>> {
    return std::make_unique<NotingStore>(*context.events, noted);
  };
  return type;
}

/// Host memory of an agent, and device memory of the fake CUDA, with loopback between them.
class StagedBackendTest : public ::testing::Test, protected backend::testing::BackendStand {
 protected:
  static backend::BackendType type(bool exists = true) {
    return type(backends::loopback::loopback_type(), exists);
  }
  static backend::BackendType type(backend::BackendType inner, bool exists = true) {
    const auto open_cuda = []() -> Result<std::shared_ptr<device::Driver>> {
      TOWPATH_TRY(auto driver, device::CudaDriver::open({.library = FakeCuda::path()}));
      return std::shared_ptr<device::Driver>(std::move(driver));
    };
    return staged(std::move(inner), {.may_exist = [exists] { return exists; }, .open = open_cuda});
  }
  void open(backend::Params params = {}) {
    params.try_emplace("staging_bytes", "64K");
    params.try_emplace("staging_slots", "3");
    ASSERT_TRUE(BackendStand::open(type(), std::move(params)).ok());
    const auto driver = device::CudaDriver::open({.library = FakeCuda::path()}).value();
    device = driver->open(0).value();
    memory = device->allocate(kSize).value();
    host.resize(kSize);
    ASSERT_TRUE(use({.address = address_of(host.data()), .length = kSize}).ok());
  }
  Result<std::unique_ptr<backend::Memory>> register_device() {
    return backend->register_memory(
        {.kind = MemoryKind::device, .address = memory.address(), .length = kSize});
  }
  void use_device() { local = register_device().value(); }
  void fill(std::uint64_t seed) {
    for (std::byte& byte : host) byte = static_cast<std::byte>((seed = seed * 31 + 7) >> 3U);
  }
  Bytes on_device() const {
    Bytes bytes(kSize);
    EXPECT_TRUE(device->copy({address_of(bytes.data()), memory.address(), kSize}).ok());
    return bytes;
  }
  Segment segment(std::uint64_t at, std::uint64_t there, std::uint64_t length) const {
    return {local.get(), imported.get(), memory.address() + at, address_of(host.data()) + there,
            length};
  }

  std::shared_ptr<device::Device> device;
  device::Memory memory;
  Bytes host;
};

TEST_F(StagedBackendTest, bytes_go_to_the_device_and_back_in_more_slots_than_there_are) {
  open();
  use_device();
  fill(1);
  const auto there = move(TransferOp::read, {segment(0, 0, kSize)});
  EXPECT_TRUE(there.status.ok()) << there.status.to_string();
  EXPECT_EQ(there.bytes, kSize);
  EXPECT_EQ(on_device(), host);
  const Bytes before = host;
  std::ranges::fill(host, std::byte{0});
  EXPECT_EQ(move(TransferOp::write, {segment(0, 0, kSize)}).bytes, kSize);
  EXPECT_EQ(host, before);
  EXPECT_THAT(backend->describe_path(*local, *imported),
              HasSubstr("staged through 3 slots of 64 KiB of pinned host memory, then"));
}

TEST_F(StagedBackendTest, scattered_extents_share_slots) {
  open();
  use_device();
  fill(2);
  Segment scattered = segment(0, 0, 48);
  scattered.count = 5000;
  scattered.local_stride = 200;
  scattered.remote_stride = 100;
  EXPECT_EQ(move(TransferOp::read, {scattered}).bytes, 5000u * 48);
  const Bytes now = on_device();
  for (std::size_t i = 0; i < 5000; ++i)
    ASSERT_TRUE(std::equal(&now[i * 200], &now[i * 200 + 48], &host[i * 100])) << i;
}

/// Over a NotingStore, with one slot.
class StagedStoreTest : public StagedBackendTest {
 protected:
  using Owned = std::unique_ptr<backend::Memory>;

  StagedStoreTest() {
    const backend::Params params{{"staging_bytes", "64K"}, {"staging_slots", "1"}};
    const Status opened = BackendStand::open(type(noting_type(noted)), params);
    EXPECT_TRUE(opened.ok()) << opened.to_string();
    device = device::CudaDriver::open({.library = FakeCuda::path()}).value()->open(0).value();
    memory = device->allocate(kSize).value();
    use_device();
  }
  Owned import_named(std::string key, MemoryKind kind = MemoryKind::object) {
    const RegionDescriptor region{.kind = kind, .length = kSize, .key = std::move(key)};
    return backend->import_memory(*connection, region, {}).value();
  }
  Segment part(const Owned& object, std::uint64_t place, std::uint64_t length) const {
    return {local.get(), object.get(), memory.address(), place, length};
  }

  std::vector<std::string> noted;
};

TEST_F(StagedStoreTest, objects_are_put_from_one_slot_each_or_not_at_all) {
  const Owned a = import_named("a"), b = import_named("b"), c = import_named("c");
  const auto whole = move(TransferOp::write, {part(a, 0, 40'000), part(b, 0, 20'000),
                                              part(b, 20'000, 20'000), part(c, 0, 10'000)});
  EXPECT_TRUE(whole.status.ok()) << whole.status.to_string();
  EXPECT_EQ(whole.bytes, 90'000u);
  EXPECT_THAT(noted, ElementsAre("a0+40000 ", "b0+20000 b20000+20000 c0+10000 "));
  noted.clear();
  Segment pieces = part(b, 0, 1);
  pieces.count = 65;
  pieces.local_stride = pieces.remote_stride = 1;
  for (const std::vector<Segment>& cut :
       {std::vector{part(a, 0, 100), part(b, 0, 65'537)}, std::vector{part(a, 0, 100), pieces},
        std::vector{part(a, 0, 40'000), part(b, 0, 100), part(a, 40'000, 30'000)}}) {
    const auto refused = move(TransferOp::write, cut);
    EXPECT_EQ(refused.status.code(), Code::unsupported);
    EXPECT_EQ(refused.bytes, 0u);
  }
  EXPECT_THAT(noted, ElementsAre()) << "an object that is there stays as it was";
  EXPECT_TRUE(
      move(TransferOp::write, {part(a, 0, 10), part(b, 0, 10), part(a, 10, 10)}).status.ok());
  EXPECT_TRUE(move(TransferOp::read, {part(a, 0, 65'537)}).status.ok());
  EXPECT_THAT(noted, ElementsAre("a0+10 b0+10 a10+10 ", "a0+65536 ", "a65536+1 "));
}

TEST_F(StagedStoreTest, files_of_a_backend_that_takes_objects_too_are_cut_where_a_slot_ends) {
  const Owned file = import_named("f", MemoryKind::disk);
  const auto long_one =
      move(TransferOp::write, {part(file, 0, 65'537), part(file, 100'000, 40'000)});
  EXPECT_TRUE(long_one.status.ok()) << long_one.status.to_string();
  EXPECT_EQ(long_one.bytes, 105'537u);
  EXPECT_THAT(noted, ElementsAre("f0+65536 ", "f65536+1 f100000+40000 "));
  noted.clear();
  const Owned other = import_named("g", MemoryKind::disk);
  const std::vector<Segment> in_turns{part(file, 0, 60'000), part(other, 0, 60'000),
                                      part(file, 60'000, 10'000)};
  EXPECT_TRUE(move(TransferOp::write, in_turns).status.ok());
  EXPECT_THAT(noted, ElementsAre("f0+60000 g0+5536 ", "g5536+54464 f60000+10000 "));
}

TEST_F(StagedStoreTest, objects_that_are_imported_as_a_list_are_put_whole_too) {
  const RegionDescriptor region{.kind = MemoryKind::object, .length = kSize, .key = "a"};
  std::array<Import, 1> list;
  list[0].region = &region;
  backend->import_memories(*connection, list);
  ASSERT_TRUE(list[0].memory.ok());
  EXPECT_EQ(move(TransferOp::write, {part(*list[0].memory, 0, 65'537)}).status.code(),
            Code::unsupported);
  EXPECT_THAT(noted, ElementsAre());
}

TEST_F(StagedBackendTest, host_memory_goes_as_it_always_did) {
  open();
  use_device();
  Bytes other(kSize);
  auto plain = backend->register_memory({.address = address_of(other.data()), .length = kSize});
  fill(3);
  Segment segment{plain->get(), imported.get(), address_of(other.data()), address_of(host.data()),
                  kSize};
  EXPECT_EQ(move(TransferOp::read, {segment}).bytes, kSize);
  EXPECT_EQ(other, host);
}

TEST_F(StagedBackendTest, where_nothing_can_be_pinned_plain_memory_serves_and_it_is_reported) {
  open();
  FakeCuda().fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  use_device();
  EXPECT_THAT(reported(), HasSubstr("no pinned memory"));
  EXPECT_THAT(backend->describe_path(*local, *imported), HasSubstr("plain host memory (exhausted"));
  fill(4);
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, kSize)}).status.ok());
  EXPECT_EQ(on_device(), host);
}

TEST_F(StagedBackendTest, a_copy_that_cannot_be_made_fails_its_bytes_only) {
  open({{"staging_slots", "1"}});
  use_device();
  fill(5);
  FakeCuda().fail_next("cuMemcpyAsync", device::cuda::kInvalidValue);
  const auto outcome = move(TransferOp::read, {segment(0, 0, 3 * 65'536)});
  EXPECT_EQ(outcome.status.code(), Code::invalid_argument);
  EXPECT_EQ(outcome.bytes, 2u * 65'536);
  ASSERT_EQ(outcome.failures.size(), 1u);
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, 3 * 65'536)}).status.ok());
}

// A driver answers for a stream that failed with that failure for good.
TEST_F(StagedBackendTest, after_a_copy_that_failed_under_way_there_is_a_new_stream) {
  open({{"staging_slots", "1"}});
  use_device();
  fill(5);
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, 65'536)}).status.ok());
  FakeCuda().fail_next("cuEventQuery", device::cuda::kInvalidValue);
  EXPECT_FALSE(move(TransferOp::read, {segment(0, 0, 65'536)}).status.ok());
  FakeCuda().fail_next("cuStreamCreate", device::cuda::kOutOfMemory);
  EXPECT_EQ(move(TransferOp::read, {segment(0, 0, 65'536)}).status.code(), Code::exhausted);
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, 65'536)}).status.ok());
}

TEST_F(StagedBackendTest, what_the_backend_refuses_is_reported_by_extent_and_the_rest_arrives) {
  open();
  use_device();
  fill(6);
  Bytes gone(4096);
  const RegionDescriptor region{.address = address_of(gone.data()), .length = gone.size()};
  auto lost = backend->register_memory(region).value();
  auto import = backend->import_memory(*connection, region, lost->key()).value();
  lost.reset();
  Segment missing = segment(8192, 0, 4096);
  missing.remote = import.get();
  missing.remote_address = region.address;
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    const auto outcome = move(op, {segment(0, 0, 4096), missing, segment(16'384, 16'384, 4096)});
    EXPECT_EQ(outcome.status.code(), Code::not_found);
    EXPECT_EQ(outcome.bytes, 8192u);
    ASSERT_EQ(outcome.failures.size(), 1u);
    EXPECT_EQ(outcome.failures[0].segment, 1u);
  }
}

TEST_F(StagedBackendTest, cancelled_it_ends_with_what_is_in_place) {
  open();
  use_device();
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    const std::vector<Segment> segments{segment(0, 0, kSize)};
    auto operation = backend->make_operation();
    operation->post({op, connection.get(), segments});
    operation->cancel();
    run(*operation);
    EXPECT_EQ(events.last(*operation).status.code(), Code::cancelled);
    EXPECT_LT(events.last(*operation).bytes, kSize);
    EXPECT_EQ(events.count(*operation), 1u);
    events.completions.clear();
  }
}

TEST_F(StagedBackendTest, an_event_without_memory_holds_up_nothing) {
  open();
  use_device();
  fill(7);
  const std::vector<Segment> segments{segment(0, 0, 4096)};
  auto operation = backend->make_operation();
  events.after_complete = [](backend::Operation&) { throw std::bad_alloc(); };
  const auto finish = [&] {
    operation->post({TransferOp::read, connection.get(), segments});
    run(*operation);
  };
  EXPECT_THROW(finish(), std::bad_alloc);
  events.after_complete = nullptr;
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, kSize)}).status.ok());
  EXPECT_EQ(on_device(), host);
}

TEST_F(StagedBackendTest, a_peers_device_memory_is_the_peers_to_stage) {
  open();
  use_device();
  const auto import = backend->import_memory(
      *connection, {.kind = MemoryKind::device, .address = 4096, .length = 1}, {});
  EXPECT_EQ(import.code(), Code::unsupported);
  EXPECT_THAT(std::string(import.status().hint()), HasSubstr("let the peer"));
}

TEST_F(StagedBackendTest, of_a_list_a_peers_device_memory_is_refused_alone) {
  open();
  use_device();
  Bytes bytes(4096);
  const RegionDescriptor here{.address = address_of(bytes.data()), .length = bytes.size()};
  const RegionDescriptor there{.kind = MemoryKind::device, .address = 4096, .length = 1};
  const auto reported = backend->register_memory(here).value();
  const Bytes key = reported->key();
  std::array<Import, 2> list;
  list[0].region = &there;
  list[1].region = &here;
  list[1].key = key;
  backend->import_memories(*connection, list);
  EXPECT_EQ(list[0].memory.code(), Code::unsupported);
  ASSERT_TRUE(list[1].memory.ok()) << list[1].memory.status().to_string();
  EXPECT_NE(*list[1].memory, nullptr);
}

TEST_F(StagedBackendTest, no_device_is_reported_when_its_memory_is_registered) {
  open();
  for (const std::uint64_t none : {std::uint64_t{9}, std::uint64_t{1} << 32U, UINT64_MAX}) {
    const RegionDescriptor region{
        .kind = MemoryKind::device, .address = memory.address(), .length = 1, .device_id = none};
    EXPECT_EQ(backend->register_memory(region).code(), Code::out_of_range) << none;
  }
  BackendStand without;
  ASSERT_TRUE(without.open(type(false)).ok());
  EXPECT_FALSE(without.backend->capabilities().takes(MemoryKind::device));
  EXPECT_EQ(BackendStand().open(type(), {{"staging_slots", "0"}}).code(), Code::invalid_argument);
}

TEST_F(StagedBackendTest, a_number_that_went_to_another_file_is_not_confirmed) {
  ASSERT_TRUE(BackendStand::open(type(backends::posix::posix_type())).ok());
  const sys::Fd first(::memfd_create("first", MFD_CLOEXEC));
  const sys::Fd second(::memfd_create("second", MFD_CLOEXEC));
  const RegionDescriptor region{.kind = MemoryKind::disk, .length = 4096, .fd = first.get()};
  const auto made = backend->register_memory(region);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(backend->confirm(**made, region).ok());
  ASSERT_EQ(::dup2(second.get(), first.get()), first.get());
  EXPECT_EQ(backend->confirm(**made, region).code(), Code::already_exists);
}

TEST_F(StagedBackendTest, more_slots_than_there_may_be_are_refused_and_said) {
  EXPECT_TRUE(
      BackendStand().open(type(), {{"staging_slots", "1024"}, {"staging_bytes", "4K"}}).ok());
  const Status status = BackendStand().open(type(), {{"staging_slots", "1025"}});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.to_string().find("1 to 1024"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace towpath::staging
