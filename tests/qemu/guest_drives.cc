#include "guest_drives.h"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <towpath/backends/nvme/nvme_backend.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/text_file.h>

namespace towpath::guest {
namespace {

constexpr auto kWatchdog = std::chrono::seconds(60);
constexpr int kWatchdogMs = 60'000;
const AgentIdentity kSelf{"guest", 1};

std::string controller_called(const std::string& serial) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/nvme", failed)) {
    const auto text = sys::read_text_file(entry.path() / "serial");
    if (text.ok() && sys::trimmed(*text) == serial) return entry.path().filename();
  }
  return {};
}

}  // namespace

bool has_drive(const std::string& serial) {
  const auto command_line = sys::read_text_file("/proc/cmdline");
  return command_line.ok() && command_line->find(cat("drive=", serial, " ")) != std::string::npos;
}

Drive drive_called(const std::string& serial) {
  Drive drive;
  const bool there = run::eventually(
      [&] {
        drive.controller = controller_called(serial);
        if (drive.controller.empty()) return false;
        const std::string number = drive.controller.substr(4);
        drive.generic = cat("/dev/ng", number, "n1");
        drive.block = cat("/dev/nvme", number, "n1");
        drive.pci = cat("/sys/class/nvme/", drive.controller, "/device");
        return ::access(drive.generic.c_str(), F_OK) == 0;
      },
      kWatchdog);
  EXPECT_TRUE(there) << "no drive with the serial number " << serial;
  return drive;
}

Bytes read_block_device(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  const sys::Fd device(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  EXPECT_TRUE(device) << path;
  const auto aligned = sys::Mapping::anonymous(length);
  EXPECT_EQ(::pread(device.get(), aligned->data(), length, static_cast<off_t>(offset)),
            static_cast<ssize_t>(length));
  const ByteSpan bytes = aligned->bytes().first(length);
  return {bytes.begin(), bytes.end()};
}

Mover::Mover(const backend::Params& params)
    : mapping(std::move(*sys::Mapping::anonymous(8 * kMiB))) {
  auto opened = backends::nvme::nvme_type(driver).open(
      {.self = kSelf, .events = &events, .metrics = &metrics, .params = params});
  EXPECT_TRUE(opened.ok()) << opened.status().to_string();
  backend = std::move(*opened);
  connection = std::move(*backend->connect(kSelf, {}));
  use_memory(mapping.bytes());
}

Mover::~Mover() {
  imported.reset();
  registered.reset();
  local.reset();
  connection.reset();
}

void Mover::use_memory(ByteSpan bytes) {
  memory = bytes;
  local = std::move(
      *backend->register_memory({.address = address_of(bytes.data()), .length = bytes.size()}));
}

Status Mover::use(const std::string& path, const char* mode, std::uint64_t offset,
                  std::uint64_t length) {
  imported.reset();
  registered.reset();
  const RegionDescriptor region{
      .kind = MemoryKind::block, .address = offset, .length = length, .key = cat(mode, path)};
  TOWPATH_TRY(registered, backend->register_memory(region));
  TOWPATH_TRY(imported, backend->import_memory(*connection, region, registered->key()));
  return {};
}

void Mover::run(const backend::Operation& operation) {
  while (events.count(operation) == 0) {
    if (backend->progress()) continue;
    pollfd ready{backend->wait_fd(), POLLIN, 0};
    ASSERT_GT(::poll(&ready, 1, kWatchdogMs), 0) << "nothing woke us";
  }
}

backend::testing::RecordedCompletion Mover::move(TransferOp op,
                                                 const std::vector<backend::Segment>& segments) {
  const auto operation = backend->make_operation();
  operation->post({op, connection.get(), segments});
  run(*operation);
  auto outcome = events.last(*operation);
  events.completions.clear();
  return outcome;
}

std::uint64_t Mover::moved(const char* path, const char* op) {
  return metrics
      .counter("towpath_nvme_bytes_total", {{"agent", kSelf.name}, {"path", path}, {"op", op}})
      .value();
}

}  // namespace towpath::guest
