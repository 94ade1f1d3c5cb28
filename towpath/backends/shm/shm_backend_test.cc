// What needs one process only: two backends of it are peers as any others.
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/testing/few_descriptors.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;
using backend::testing::RecordingEvents;

constexpr std::uint64_t kSize = 4 * kSliceBytes;

struct Side {
  explicit Side(const char* name, Params params = {}) : self{name, 11} {
    backend = *shm_type().open(
        {.self = self, .clock = &clock, .events = &events, .log = &log, .params = params});
    memfd = *sys::create_sealed_memfd("test", kSize + 4096);
    mapping = *sys::Mapping::of_file({.fd = memfd.get(), .size_bytes = kSize + 4096});
    auto* first = reinterpret_cast<std::uint8_t*>(mapping.data());
    std::iota(first, first + kSize + 4096, static_cast<std::uint8_t>(name[0]));
    shared = {.address = address_of(mapping.data() + 4096),
              .length = kSize,
              .fd = memfd.get(),
              .fd_offset = 4096};
    plain = shared;
    plain.fd = -1;
    shared_memory = *backend->register_memory(shared);
    plain_memory = *backend->register_memory(plain);
  }
  bool readable() const {
    pollfd watched{backend->wait_fd(), POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
  }
  void run() {
    while (backend->progress() || readable()) continue;
  }
  std::byte* bytes() const { return mapping.data() + 4096; }

  AgentIdentity self;
  sys::SystemClock clock;
  RecordingEvents events;
  telemetry::CollectingSink log;
  std::unique_ptr<Backend> backend;
  sys::Fd memfd;
  sys::Mapping mapping;
  RegionDescriptor shared, plain;
  std::unique_ptr<Memory> shared_memory, plain_memory;
};

class ShmBackendTest : public ::testing::Test {
 protected:
  std::unique_ptr<Connection> connect(Side& from, Side& to) {
    auto connection = from.backend->connect(to.self, to.backend->connection_info());
    EXPECT_TRUE(connection.ok()) << connection.status().to_string();
    return *std::move(connection);
  }
  std::unique_ptr<Memory> import(Side& here, Connection& way, const RegionDescriptor& region,
                                 const Memory& memory) {
    auto imported = here.backend->import_memory(way, region, memory.key());
    EXPECT_TRUE(imported.ok()) << imported.status().to_string();
    return *std::move(imported);
  }
  Segment segment(Memory& remote, std::uint64_t length) {
    return {.local = a_.plain_memory.get(),
            .remote = &remote,
            .local_address = a_.plain.address,
            .remote_address = b_.plain.address,
            .length = length};
  }

  Side a_{"a"};
  Side b_{"b"};
};

TEST_F(ShmBackendTest, path_is_chosen_per_memory_and_reported) {
  const auto way = connect(a_, b_);
  const auto own = connect(a_, a_);
  const auto path = [&](const Memory& remote) {
    return a_.backend->describe_path(*a_.plain_memory, remote);
  };
  EXPECT_NE(path(*import(a_, *way, b_.shared, *b_.shared_memory)).find("memfd"), std::string::npos);
  const std::string process = path(*import(a_, *way, b_.plain, *b_.plain_memory));
  EXPECT_NE(process.find("process_vm"), std::string::npos);
  EXPECT_NE(process.find("not a sealed memfd"), std::string::npos);
  EXPECT_NE(path(*import(a_, *own, a_.plain, *a_.plain_memory)).find("within"), std::string::npos);
}

TEST_F(ShmBackendTest, bytes_move_on_every_path_in_both_directions) {
  const auto way = connect(a_, b_);
  const auto operation = a_.backend->make_operation();
  for (const bool mapped : {true, false}) {
    const auto remote = mapped ? import(a_, *way, b_.shared, *b_.shared_memory)
                               : import(a_, *way, b_.plain, *b_.plain_memory);
    std::memset(a_.bytes(), 1, kSize);
    const std::vector all{segment(*remote, kSize)};
    operation->post({TransferOp::read, way.get(), all});
    a_.run();
    ASSERT_TRUE(a_.events.last(*operation).status.ok());
    EXPECT_EQ(a_.events.last(*operation).bytes, kSize);
    EXPECT_EQ(std::memcmp(a_.bytes(), b_.bytes(), kSize), 0);
    std::memset(a_.bytes(), mapped ? 2 : 3, kSize);
    operation->post({TransferOp::write, way.get(), all});
    a_.run();
    EXPECT_EQ(std::memcmp(a_.bytes(), b_.bytes(), kSize), 0);
  }
}

TEST_F(ShmBackendTest, odd_and_many_extents_land_on_every_path) {
  const auto way = connect(a_, b_);
  const auto operation = a_.backend->make_operation();
  for (const bool mapped : {true, false}) {
    const auto remote = mapped ? import(a_, *way, b_.shared, *b_.shared_memory)
                               : import(a_, *way, b_.plain, *b_.plain_memory);
    std::memset(a_.bytes(), 0, kSize);
    std::vector<Segment> segments(65'536, segment(*remote, 5));
    for (std::uint64_t i = 0; i < segments.size(); ++i) {
      segments[i].local_address += 7 * i;
      segments[i].remote_address += 11 * i + 1;
      if (i % 3 == 0) segments[i].length = 0;
    }
    Segment strided = segment(*remote, 3);
    strided.local_address += 7 * 65'536;
    strided.count = 4096;
    strided.local_stride = 5;
    strided.remote_stride = 13;
    segments.push_back(strided);
    operation->post({TransferOp::read, way.get(), segments});
    a_.run();
    ASSERT_TRUE(a_.events.last(*operation).status.ok());
    EXPECT_EQ(a_.events.last(*operation).bytes, 43'690u * 5 + 4096 * 3);
    for (std::uint64_t i = 0; i < 65'536; ++i) {
      const std::uint64_t length = i % 3 == 0 ? 0 : 5;
      ASSERT_EQ(std::memcmp(a_.bytes() + 7 * i, b_.bytes() + 11 * i + 1, length), 0) << i;
      ASSERT_EQ(std::to_integer<int>(a_.bytes()[7 * i + 5]), 0) << i;
    }
    for (std::uint64_t i = 0; i < 4096; ++i)
      ASSERT_EQ(std::memcmp(a_.bytes() + 7 * 65'536 + 5 * i, b_.bytes() + 13 * i, 3), 0) << i;
  }
}

TEST_F(ShmBackendTest, agent_reaches_only_what_it_registered_of_itself) {
  const auto own = connect(a_, a_);
  const auto remote = import(a_, *own, a_.plain, *a_.plain_memory);
  const auto operation = a_.backend->make_operation();
  std::vector segments{segment(*remote, 64)};
  segments[0].remote_address = a_.plain.address + 4096 + 128;
  operation->post({TransferOp::read, own.get(), segments});
  EXPECT_TRUE(a_.events.last(*operation).status.ok());
  EXPECT_EQ(std::memcmp(a_.bytes(), a_.bytes() + 4096 + 128, 64), 0);
  ShmKey forged = *decode_key(a_.plain_memory->key());
  forged.address = 4096;
  forged.length = 1 << 20;
  EXPECT_EQ(a_.backend->import_memory(*own, {.address = 8192, .length = 4}, encode(forged)).code(),
            Code::corrupt);
}

TEST_F(ShmBackendTest, hostile_keys_and_regions_are_refused) {
  const auto way = connect(a_, b_);
  const auto code_for = [&](const ShmKey& key, const RegionDescriptor& region) {
    return a_.backend->import_memory(*way, region, encode(key)).code();
  };
  const ShmKey good = *decode_key(b_.shared_memory->key());
  RegionDescriptor larger = b_.shared;
  ++larger.length;
  EXPECT_EQ(code_for(good, larger), Code::corrupt);
  RegionDescriptor before = b_.shared;
  --before.address;
  EXPECT_EQ(code_for(good, before), Code::corrupt);
  ShmKey key = good;
  ++key.generation;
  EXPECT_EQ(code_for(key, b_.shared), Code::not_found);
  key = good;
  key.slot = UINT32_MAX;
  EXPECT_EQ(code_for(key, b_.shared), Code::not_found);
  EXPECT_EQ(a_.backend->import_memory(*way, b_.shared, as_bytes("x")).code(), Code::corrupt);
  RegionDescriptor disk = b_.shared;
  disk.kind = MemoryKind::disk;
  EXPECT_EQ(code_for(good, disk), Code::unsupported);
  key = good;
  key.shared->offset += 1;  // beyond the end of the memfd
  EXPECT_EQ(code_for(key, b_.shared), Code::corrupt);
}

TEST_F(ShmBackendTest, refusal_names_the_reasons_of_both_paths) {
  Side only_mapped("m", {{"paths", "mapped"}});
  const auto way = connect(only_mapped, b_);
  const auto refused =
      only_mapped.backend->import_memory(*way, b_.plain, b_.plain_memory->key()).status();
  EXPECT_EQ(refused.code(), Code::denied);
  EXPECT_NE(refused.message().find("not a sealed memfd"), std::string_view::npos);
  EXPECT_NE(refused.message().find("switched off"), std::string_view::npos);
  EXPECT_FALSE(refused.hint().empty());
  Side only_process("p", {{"paths", "process_vm"}});
  const auto other = connect(only_process, b_);
  const auto remote =
      only_process.backend->import_memory(*other, b_.shared, b_.shared_memory->key());
  ASSERT_TRUE(remote.ok());
  EXPECT_NE(only_process.backend->describe_path(*b_.plain_memory, **remote).find("process_vm"),
            std::string::npos);
  EXPECT_EQ(shm_type().open({.events = &a_.events, .params = {{"paths", "magic"}}}).code(),
            Code::invalid_argument);
}

TEST_F(ShmBackendTest, memory_that_is_not_there_is_refused_at_import) {
  const auto hole = sys::Mapping::anonymous(3 * 4096);
  ASSERT_EQ(::mprotect(hole->data() + 4096, 2 * 4096, PROT_NONE), 0);
  const RegionDescriptor region{.address = address_of(hole->data()), .length = 3 * 4096};
  const auto memory = b_.backend->register_memory(region);
  const auto way = connect(a_, b_);
  EXPECT_EQ(a_.backend->import_memory(*way, region, (*memory)->key()).code(), Code::unsupported);
}

TEST_F(ShmBackendTest, of_a_list_each_region_is_refused_or_imported_by_itself) {
  constexpr std::size_t kLie = 70;
  const auto way = connect(a_, b_);
  const Bytes plain = b_.plain_memory->key();
  std::vector<Import> list(200);
  for (Import& one : list) one = {.region = &b_.plain, .key = plain};
  list[kLie].region = &a_.plain;
  a_.backend->import_memories(*way, list);
  for (std::size_t i = 0; i < list.size(); ++i)
    EXPECT_EQ(list[i].memory.code(), i == kLie ? Code::corrupt : Code::ok) << "region " << i;
}

TEST_F(ShmBackendTest, extent_that_the_kernel_refuses_is_named_exactly) {
  const auto partly = sys::Mapping::anonymous(3 * 4096);
  std::memset(partly->data(), 9, 3 * 4096);
  const RegionDescriptor region{.address = address_of(partly->data()), .length = 3 * 4096};
  const auto memory = b_.backend->register_memory(region);
  const auto way = connect(a_, b_);
  const auto remote = import(a_, *way, region, **memory);
  ASSERT_EQ(::mprotect(partly->data() + 4096, 4096, PROT_NONE), 0);
  std::memset(a_.bytes(), 0, 4 * 4096);
  Segment pages = segment(*remote, 1024);  // 12 extents; 4 to 7 lie in the hole
  pages.remote_address = region.address;
  pages.count = 12;
  pages.local_stride = pages.remote_stride = 1024;
  Segment across = segment(*remote, 8192);  // half of it is there
  across.remote_address = region.address;
  across.local_address += 4 * 4096;
  const std::vector segments{pages, across};
  const auto operation = a_.backend->make_operation();
  operation->post({TransferOp::read, way.get(), segments});
  a_.run();
  const auto& end = a_.events.last(*operation);
  EXPECT_EQ(end.status.code(), Code::out_of_range);
  ASSERT_EQ(end.failures.size(), 5u);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(end.failures[i].segment, 0u);
    EXPECT_EQ(end.failures[i].extent, 4 + i);
    EXPECT_EQ(end.failures[i].bytes, 0u);
  }
  EXPECT_EQ(end.failures[4].segment, 1u);
  EXPECT_EQ(end.failures[4].bytes, 4096u);
  EXPECT_EQ(end.bytes, 8u * 1024 + 4096);
  for (const std::size_t page : {0u, 2u})
    EXPECT_EQ(std::memcmp(a_.bytes() + page * 4096, partly->data() + page * 4096, 4096), 0);
}

TEST_F(ShmBackendTest, registration_taken_back_stops_a_transfer_in_flight) {
  const auto way = connect(a_, b_);
  for (const bool mapped : {true, false}) {
    auto& memory = mapped ? b_.shared_memory : b_.plain_memory;
    const auto remote = import(a_, *way, mapped ? b_.shared : b_.plain, *memory);
    const auto operation = a_.backend->make_operation();
    const std::vector segments{segment(*remote, 2 * kSliceBytes)};
    operation->post({TransferOp::read, way.get(), segments});
    memory.reset();
    a_.run();
    const auto& end = a_.events.last(*operation);
    EXPECT_EQ(end.status.code(), Code::not_found);
    ASSERT_EQ(end.failures.size(), 1u);
    EXPECT_EQ(end.failures[0].bytes, kSliceBytes);
  }
}

TEST_F(ShmBackendTest, info_of_others_is_refused_by_its_fault) {
  const ShmInfo good = *decode_info(b_.backend->connection_info());
  const auto code_for = [&](const ShmInfo& info) {
    return a_.backend->connect(b_.self, encode(info)).code();
  };
  ShmInfo info = good;
  info.host.boot_id[0] ^= 1;
  EXPECT_EQ(code_for(info), Code::unsupported);
  info = good;
  ++info.host.start_time;
  EXPECT_EQ(code_for(info), Code::peer_lost);
  info = good;
  ++info.registrations.inode;
  EXPECT_EQ(code_for(info), Code::peer_lost);
  info = good;
  ASSERT_TRUE(info.door.has_value());
  ++info.door->inode;
  EXPECT_EQ(code_for(info), Code::peer_lost);
  info.door.reset();  // then the name is what leads there
  ++info.socket_token[0];
  EXPECT_EQ(code_for(info), Code::peer_lost);
  EXPECT_EQ(a_.backend->connect({"b", 12}, encode(good)).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->connect(b_.self, as_bytes("garbage")).code(), Code::corrupt);
}

TEST_F(ShmBackendTest, backend_that_closes_is_lost_once_while_its_process_lives) {
  const auto way = connect(a_, b_);
  const auto remote = import(a_, *way, b_.shared, *b_.shared_memory);
  const auto operation = a_.backend->make_operation();
  const std::vector segments{segment(*remote, 3 * kSliceBytes)};
  operation->post({TransferOp::read, way.get(), segments});
  ASSERT_TRUE(b_.backend->notify(*connect(b_, a_), as_bytes("last words")).ok());
  b_.shared_memory.reset();
  b_.plain_memory.reset();
  b_.backend.reset();
  EXPECT_TRUE(a_.readable());
  a_.run();
  EXPECT_EQ(a_.events.notifications.size(), 1u);
  ASSERT_EQ(a_.events.losses.size(), 1u);
  EXPECT_EQ(a_.events.losses[0].connection, way.get());
  EXPECT_EQ(a_.events.last(*operation).status.code(), Code::peer_lost);
  operation->post({TransferOp::read, way.get(), segments});
  EXPECT_EQ(a_.events.last(*operation).status.code(), Code::peer_lost);
  EXPECT_EQ(a_.backend->notify(*way, as_bytes("?")).code(), Code::peer_lost);
  EXPECT_EQ(a_.events.losses.size(), 1u);
}

TEST_F(ShmBackendTest, memfd_that_is_not_sealed_is_reported_and_moved_all_the_same) {
  const sys::Fd fd(::memfd_create("plain", MFD_CLOEXEC));
  RegionDescriptor region = b_.plain;
  region.fd = fd.get();
  const auto memory = b_.backend->register_memory(region);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(b_.log.count_of("peers cannot map"), 1u);
  const auto way = connect(a_, b_);
  EXPECT_TRUE(a_.backend->import_memory(*way, region, (*memory)->key()).ok());
}

// A memfd, the place, the memfd again: whichever is the one too many.
TEST_F(ShmBackendTest, probe_without_a_descriptor_knows_nothing_and_says_what_helps) {
  for (rlim_t free = 0; free < 3; ++free) {
    const sys::testing::FewDescriptors few(free);
    const Finding finding = shm_type().probe({}).front();
    EXPECT_EQ(finding.verdict, Verdict::unknown) << free << ": " << finding.reason;
    EXPECT_NE(finding.hint.find("ulimit -n"), std::string::npos) << free << finding.hint;
  }
}

TEST_F(ShmBackendTest, connecting_without_a_descriptor_blames_not_the_peer) {
  const Bytes info = b_.backend->connection_info();
  for (rlim_t free = 0; free < 3; ++free) {
    const sys::testing::FewDescriptors few(free);
    const auto refused = a_.backend->connect(b_.self, info);
    EXPECT_EQ(refused.code(), Code::exhausted) << free << ": " << refused.status().to_string();
    EXPECT_NE(refused.status().to_string().find("ulimit -n"), std::string::npos) << free;
  }
}

TEST_F(ShmBackendTest, probe_reports_both_paths) {
  const auto findings = shm_type().probe({});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].verdict, Verdict::yes) << findings[0].reason;
  for (const Finding& finding : findings) EXPECT_FALSE(finding.reason.empty());
}

// Two backends of a process with one GPU, as the tests' libcuda has it. Between processes:
// shm_process_test.cc.
class ShmDeviceTest : public ::testing::Test {
 protected:
  ShmDeviceTest() {
    const auto side = [this](AgentIdentity self, Events& events) {
      return *shm_type({.open = [this] { return Result(driver_); }})
                  .open(
                      {.self = std::move(self), .clock = &clock_, .events = &events, .log = &log_});
    };
    near_ = side(near_self_, events_);
    far_ = side(far_self_, far_events_);
    way_ = *near_->connect(far_self_, far_->connection_info());
    host_.resize(kSize);
    std::iota(reinterpret_cast<std::uint8_t*>(host_.data()),
              reinterpret_cast<std::uint8_t*>(host_.data()) + kSize, std::uint8_t{3});
    local_ = *near_->register_memory({.address = address_of(host_.data()), .length = kSize});
  }
  Status move(TransferOp op, Memory& remote, std::uint64_t address) {
    const std::vector<Segment> all{{.local = local_.get(),
                                    .remote = &remote,
                                    .local_address = address_of(host_.data()),
                                    .remote_address = address,
                                    .length = 48,
                                    .count = kSize / 64,
                                    .local_stride = 64,
                                    .remote_stride = 64}};
    const auto operation = near_->make_operation();
    operation->post({op, way_.get(), all});
    while (near_->progress()) continue;
    return events_.last(*operation).status;
  }

  const device::testing::FakeCuda cuda_;
  sys::SystemClock clock_;
  std::shared_ptr<device::Driver> driver_ =
      *device::CudaDriver::open({.library = device::testing::FakeCuda::path()});
  std::shared_ptr<device::Device> gpu_ = *driver_->open(0);
  device::Memory memory_ = *gpu_->allocate(kSize + 4096);
  /// Begins and ends within its allocation.
  const RegionDescriptor region_{
      .kind = MemoryKind::device, .address = memory_.address() + 1024, .length = kSize};
  const AgentIdentity near_self_{"near", 1}, far_self_{"far", 2};
  RecordingEvents events_, far_events_;
  telemetry::CollectingSink log_;
  std::unique_ptr<Backend> near_, far_;
  std::unique_ptr<Connection> way_;
  Bytes host_;
  std::unique_ptr<Memory> local_;
};

TEST_F(ShmDeviceTest, the_device_s_copies_bring_what_is_written_back) {
  const auto registered = *far_->register_memory(region_);
  const auto remote = near_->import_memory(*way_, region_, registered->key());
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  const Bytes before = host_;
  ASSERT_TRUE(move(TransferOp::write, **remote, region_.address).ok());
  std::ranges::fill(host_, std::byte{0});
  ASSERT_TRUE(move(TransferOp::read, **remote, region_.address).ok());
  for (std::size_t i = 0; i < kSize; ++i)
    ASSERT_EQ(host_[i], i % 64 < 48 ? before[i] : std::byte{0}) << i;
  EXPECT_STREQ(cuda_.complaints(), "");
}

TEST_F(ShmDeviceTest, device_memory_that_was_taken_back_or_is_ones_own_is_out_of_reach) {
  auto registered = *far_->register_memory(region_);
  const auto remote = *near_->import_memory(*way_, region_, registered->key());
  registered.reset();
  EXPECT_EQ(move(TransferOp::write, *remote, region_.address).code(), Code::not_found);
  const auto own = *near_->register_memory(region_);
  const auto to_self = *near_->connect(near_self_, near_->connection_info());
  EXPECT_EQ(near_->import_memory(*to_self, region_, own->key()).code(), Code::unsupported);
}

TEST_F(ShmDeviceTest, memory_that_no_driver_exports_is_registered_and_reported) {
  cuda_.fail_next("cuIpcGetMemHandle", device::cuda::kInvalidValue);
  const auto registered = far_->register_memory(region_);
  ASSERT_TRUE(registered.ok()) << registered.status().to_string();
  ASSERT_EQ(log_.events().size(), 1u);
  const auto remote = near_->import_memory(*way_, region_, (*registered)->key());
  EXPECT_EQ(remote.code(), Code::unsupported);
  EXPECT_NE(remote.status().to_string().find("use ucx"), std::string::npos);
}

TEST_F(ShmDeviceTest, copies_that_fail_are_reported_by_extent) {
  const auto registered = *far_->register_memory(region_);
  const auto remote = *near_->import_memory(*way_, region_, registered->key());
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);
  EXPECT_EQ(move(TransferOp::read, *remote, region_.address).code(), Code::denied);
  EXPECT_TRUE(move(TransferOp::read, *remote, region_.address).ok());
}

TEST_F(ShmDeviceTest, a_key_that_names_other_memory_is_not_believed) {
  const auto registered = *far_->register_memory(region_);
  ShmKey key = *decode_key(registered->key());
  ASSERT_TRUE(key.device);
  key.address = address_of(host_.data());  // ours, and no device's
  RegionDescriptor lie = region_;
  lie.address = key.address;
  EXPECT_FALSE(near_->import_memory(*way_, lie, encode(key)).ok());
  key.address = region_.address;
  key.device->pci_address = "0000:ff:00.0";
  EXPECT_EQ(near_->import_memory(*way_, region_, encode(key)).code(), Code::not_found);
}

TEST_F(ShmDeviceTest, without_a_driver_no_device_is_promised) {
  const auto host_only =
      *shm_type().open({.self = near_self_, .clock = &clock_, .events = &events_});
  EXPECT_EQ(host_only->capabilities().pairs.size() + 2, near_->capabilities().pairs.size());
  EXPECT_FALSE(host_only->register_memory(region_).ok());
}

}  // namespace
}  // namespace towpath::backends::shm
