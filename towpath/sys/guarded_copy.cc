#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <sys/uio.h>

#include <towpath/core/bytes.h>
#include <towpath/core/check.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/guarded_copy.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>

namespace towpath::sys {
namespace {

constexpr std::uint64_t kStageBytes = 128 * 1024;
constexpr std::size_t kExtents = 512;

}  // namespace

struct GuardedCopy::Stage {
  Fd file;
  Mapping pages;
  std::uint64_t filled = 0;  // bytes of the extents below
  std::size_t count = 0;
  std::array<iovec, kExtents> memory;
  std::array<std::byte*, kExtents> own;
  std::array<std::uint32_t, kExtents> tags;
};

GuardedCopy::GuardedCopy() noexcept = default;
GuardedCopy::~GuardedCopy() = default;

Status GuardedCopy::open() {
  if (stage_) return {};
  auto stage = std::make_unique<Stage>();
  TOWPATH_TRY(stage->file, create_sealed_memfd("towpath-guarded-copy", kStageBytes));
  TOWPATH_TRY(
      stage->pages,
      Mapping::of_file({.fd = stage->file.get(), .size_bytes = kStageBytes, .inherited = false}));
  std::ranges::fill(stage->pages.bytes(), std::byte{0});  // so that no page is missing later
  stage_ = std::move(stage);
  return {};
}

bool GuardedCopy::is_open() noexcept {
  try {
    return open().ok();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void GuardedCopy::begin(Direction direction) noexcept {
  direction_ = direction;
  faults_ = 0;
  if (stage_) stage_->filled = stage_->count = 0;  // of one that was never finished
}

void GuardedCopy::add(GuardedExtent extent) noexcept {
  if (has_faulted(extent.tag) || !is_open()) {
    if (direction_ == Direction::out_of_memory) std::memset(extent.own, 0, extent.length);
    return note_fault(extent.tag);
  }
  Stage& stage = *stage_;
  while (extent.length > 0) {
    if (stage.count == kExtents || stage.filled == kStageBytes) flush();
    const std::uint64_t length = std::min(extent.length, kStageBytes - stage.filled);
    stage.memory[stage.count] = {bytes_at(extent.address, length).data(), length};
    stage.own[stage.count] = extent.own;
    stage.tags[stage.count++] = extent.tag;
    stage.filled += length;
    extent.own += length;
    extent.address += length;
    extent.length -= length;
  }
}

std::span<const std::uint32_t> GuardedCopy::finish() noexcept {
  if (stage_) flush();
  return std::span(faulty_).first(faults_);
}

void GuardedCopy::note_fault(std::uint32_t tag) noexcept {
  if (has_faulted(tag)) return;
  TOWPATH_CHECK(faults_ < kMostFaults, "more extents fault than are named");
  faulty_[faults_++] = tag;
}

void GuardedCopy::flush() noexcept {
  Stage& stage = *stage_;
  if (stage.count == 0) return;
  std::array<std::uint64_t, kExtents> lengths;  // the kernel's view of them is moved on
  std::ranges::transform(std::span(stage.memory).first(stage.count), lengths.begin(),
                         &iovec::iov_len);
  std::byte* at = stage.pages.data();
  if (direction_ == Direction::into_memory) {
    for (std::size_t i = 0; i < stage.count; at += lengths[i++])
      std::memcpy(at, stage.own[i], lengths[i]);
  }
  move();
  if (direction_ == Direction::out_of_memory) {
    for (std::size_t i = 0; i < stage.count; at += lengths[i++])
      std::memcpy(stage.own[i], at, lengths[i]);
  }
  stage.count = 0;
  stage.filled = 0;
}

// The kernel stops at what it cannot touch, and the call that begins there says so.
void GuardedCopy::move() noexcept {
  Stage& stage = *stage_;
  const bool reads = direction_ == Direction::out_of_memory;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < stage.count;) {
    const auto call = reads ? ::pwritev : ::preadv;
    const ssize_t moved = call(stage.file.get(), &stage.memory[i],
                               static_cast<int>(stage.count - i), static_cast<off_t>(at));
    if (moved < 0 && errno == EINTR) continue;
    std::uint64_t left = moved > 0 ? static_cast<std::uint64_t>(moved) : 0;
    at += left;
    for (; i < stage.count && left >= stage.memory[i].iov_len; ++i) left -= stage.memory[i].iov_len;
    if (i == stage.count) return;
    iovec& rest = stage.memory[i];
    rest.iov_base = static_cast<std::byte*>(rest.iov_base) + left;
    rest.iov_len -= left;
    if (moved > 0) continue;
    const std::uint32_t faulty = stage.tags[i];
    note_fault(faulty);
    const std::uint64_t begin = at;
    for (; i < stage.count && stage.tags[i] == faulty; ++i) at += stage.memory[i].iov_len;
    if (reads) std::memset(stage.pages.data() + begin, 0, at - begin);
  }
}

}  // namespace towpath::sys
