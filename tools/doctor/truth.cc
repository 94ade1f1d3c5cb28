#include "tools/doctor/truth.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <towpath/agent/agent.h>
#include <towpath/backends/gds/cufile.h>
#include <towpath/core/format.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/nvidia_fs.h>
#include <towpath/sys/proc_io.h>
#include <towpath/sys/system_file.h>

#include "tools/command.h"

namespace towpath::tools {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);

Bytes pattern() {
  Bytes bytes(kTruthBytes);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 69069 + 1) >> 24U);
  return bytes;
}

/// Memory of the host or a device, which this process can fill and look at.
class NearEnd {
 public:
  static Result<NearEnd> make(const memory::SharedDevice& device) {
    NearEnd end;
    if (device == nullptr) {
      TOWPATH_TRY(end.region, memory::SystemRegion::allocate(kTruthBytes));
    } else {
      TOWPATH_TRY(end.region, memory::DeviceRegion::allocate(device, kTruthBytes));
    }
    end.device_ = device;
    return end;
  }
  Status set(ConstByteSpan bytes) const {
    if (device_ != nullptr)
      return device_->copy({descriptor().address, address_of(bytes.data()), bytes.size()});
    std::ranges::copy(bytes, region->bytes().begin());
    return {};
  }
  Result<Bytes> get() const {
    Bytes bytes(kTruthBytes);
    if (device_ != nullptr) {
      TOWPATH_TRY(device_->copy({address_of(bytes.data()), descriptor().address, bytes.size()}));
    } else {
      std::ranges::copy(region->bytes(), bytes.begin());
    }
    return bytes;
  }
  RegionDescriptor descriptor() const { return region->descriptor(); }

  memory::SharedRegion region;

 private:
  memory::SharedDevice device_;
};

struct Proof {
  std::string path;  ///< what the backend says
  bool right = false;
  Counts before;
  Counts after;
};

DescriptorList all_of(const RegionDescriptor& region) {
  DescriptorList list(region.kind);
  (void)list.add(Descriptor{region.address, region.length, region.device_id});
  return list;
}

Status finish(agent::Transfer& transfer) {
  TOWPATH_TRY(transfer.post({.timeout = kTimeout}));
  if (transfer.wait() != Outcome::done) return transfer.status();
  return {};
}

Result<Proof> there_and_back(const backend::Registry& registry, const Ends& ends,
                             const Counter& count) {
  const sys::SystemClock clock;
  sys::SystemFileSystem files;
  std::error_code failed;
  if (!std::filesystem::is_directory(ends.directory, failed))  // else it would be made
    return error(Code::not_found, cat("'", printable(ends.directory, 256), "' is no directory"),
                 "name one that is there");
  TOWPATH_TRY(auto agent, agent::Agent::create(
                              {.name = "towpath-truth", .registry = &registry, .clock = &clock}));
  TOWPATH_TRY(agent->add_backend(ends.backend));
  TOWPATH_TRY(const NearEnd near, NearEnd::make(ends.device));
  TOWPATH_TRY(auto file, memory::DiskRegion::open({.path = ends.directory + "/",
                                                   .size_bytes = kTruthBytes,
                                                   .life = memory::FileLife::nameless},
                                                  files));
  TOWPATH_TRY(const auto here, agent->register_region(near.region));
  TOWPATH_TRY(const auto there, agent->register_region(file));
  const DescriptorList local = all_of(near.descriptor());
  const DescriptorList remote = all_of(file->descriptor());
  const Bytes sent = pattern();
  TOWPATH_TRY(near.set(sent));
  TOWPATH_TRY(auto out, agent->create_transfer(TransferOp::write, local, agent->name(), remote));
  TOWPATH_TRY(finish(out));
  TOWPATH_TRY(near.set(Bytes(kTruthBytes)));
  TOWPATH_TRY(auto back, agent->create_transfer(TransferOp::read, local, agent->name(), remote));
  Proof proof{.before = count()};
  TOWPATH_TRY(finish(back));
  proof.after = count();
  TOWPATH_TRY(const Bytes arrived, near.get());
  proof.right = arrived == sent;
  const agent::Explanation reported = back.explain();
  if (const agent::Candidate* chosen = reported.chosen()) proof.path = chosen->path;
  return proof;
}

std::string counted(const Proof& proof) {
  std::string text =
      cat("the kernel fetched ",
          format_bytes(proof.after.fetched_bytes - proof.before.fetched_bytes), " from storage");
  if (proof.after.straight_reads && proof.before.straight_reads) {
    text += cat(", libcufile counted ", *proof.after.straight_reads - *proof.before.straight_reads,
                " reads straight and ", proof.after.staged_reads - proof.before.staged_reads,
                " through host memory");
  } else if (proof.after.driver_reads && proof.before.driver_reads) {
    text += cat(", nvidia-fs counted ", *proof.after.driver_reads - *proof.before.driver_reads,
                " reads straight, of all processes");
  }
  return text;
}

bool went_straight(const Proof& proof, bool to_device) {
  if (!to_device) return proof.after.fetched_bytes - proof.before.fetched_bytes >= kTruthBytes;
  if (proof.after.straight_reads && proof.before.straight_reads)
    return *proof.after.straight_reads > *proof.before.straight_reads &&
           proof.after.staged_reads == proof.before.staged_reads;
  return proof.after.driver_reads && proof.before.driver_reads &&
         *proof.after.driver_reads > *proof.before.driver_reads;
}

}  // namespace

Counter real_counter() {
  auto cufile = backends::gds::CuFile::open();
  return [library = cufile.ok() ? *cufile : nullptr] {
    Counts counts;
    if (const auto io = sys::read_proc_io(); io.ok()) counts.fetched_bytes = io->read_bytes;
    const auto gpu = library == nullptr ? std::nullopt : library->counters();
    if (!gpu) {
      counts.driver_reads = sys::read_nvidia_fs().reads();
      return counts;
    }
    counts.straight_reads = gpu->p2p_reads + gpu->nvfs_reads;
    counts.staged_reads = gpu->posix_reads;
    return counts;
  };
}

Finding prove(const backend::Registry& registry, const Ends& ends, const Counter& count) {
  Finding finding{
      .question = cat("Do bytes go straight between ", printable(ends.directory, 256), " and ",
                      ends.device == nullptr ? "host memory" : ends.device->info().name, " by ",
                      ends.backend, "?"),
      .signal = "64 KiB written and read, every byte verified, and who counted them",
      .source =
          cat(printable(ends.directory, 256), ", /proc/self/io",
              ends.device == nullptr ? "" : ", cuFileGetStatsL3 or /proc/driver/nvidia-fs/stats")};
  const auto proof = there_and_back(registry, ends, count);
  if (!proof.ok()) {
    finding.verdict = Verdict::no;
    finding.reason = story_of(proof.status());
    finding.hint = hint_of(proof.status());
  } else if (!proof->right) {
    finding.verdict = Verdict::no;
    finding.reason = cat("wrong bytes came back; the path: ", proof->path);
    finding.hint = "do not use this path; please report it";
  } else {
    const bool straight = went_straight(*proof, ends.device != nullptr);
    finding.verdict = straight ? Verdict::yes : Verdict::degraded;
    finding.reason = cat(counted(*proof), "; the backend says: ", proof->path);
    if (!straight)
      finding.hint = ends.device == nullptr ? "a file system and drive that take O_DIRECT"
                                            : "see what stands against the straight paths, above";
  }
  return finding;
}

}  // namespace towpath::tools
