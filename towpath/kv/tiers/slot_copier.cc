#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/device/bounce.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/slot_copier.h>

namespace towpath::kv {
namespace {

// Host memory ------------------------------------------------------------------------------------

class HostCopier final : public SlotCopier {
 public:
  HostCopier(layout::PhysicalLayout layout, std::uint64_t block_bytes)
      : layout_(std::move(layout)), block_bytes_(block_bytes) {}

  std::size_t at_once() const noexcept override { return SIZE_MAX; }
  bool must_read_back() const noexcept override { return false; }

  ByteSpan take_aside() override {
    if (free_.empty()) return {asides_.emplace_back(make_aside()).get(), block_bytes_};
    const ByteSpan aside = free_.back();
    free_.pop_back();
    return aside;
  }
  void give_back(ByteSpan aside) override { free_.push_back(aside); }

  void begin(SlotCopy& copy) override { copy.end(move(copy)); }

 private:
  Status move(SlotCopy& copy) const {
    if (!copy.in.empty()) {
      TOWPATH_TRY(copy.found, scatter_as(copy.digest, copy.in, layout_, copy.slot));
    }
    if (!copy.out.empty()) {
      TOWPATH_TRY(copy.found, gather_as(copy.digest, layout_, copy.slot, copy.out));
    }
    return {};
  }

  /// At a page, as what goes past the page cache must be.
  static constexpr std::align_val_t kPage{4096};
  struct AtPage {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, kPage); }
  };
  using Aside = std::unique_ptr<std::byte[], AtPage>;
  Aside make_aside() const {
    return Aside(static_cast<std::byte*>(::operator new[](block_bytes_, kPage)));
  }

  const layout::PhysicalLayout layout_;
  const std::uint64_t block_bytes_;
  std::deque<Aside> asides_;
  std::vector<ByteSpan> free_;
};

// A device's memory ------------------------------------------------------------------------------

class DeviceCopier final : public SlotCopier {
 public:
  DeviceCopier(layout::PhysicalLayout layout, memory::SharedDevice device,
               device::BounceSlots asides, std::size_t at_once)
      : layout_(std::move(layout)),
        device_(std::move(device)),
        asides_(std::move(asides)),
        at_once_(at_once),
        stream_(device_) {}
  ~DeviceCopier() override {
    break_off(error(Code::cancelled, "the cache ends"));  // which waits
  }

  /// One for a block on its way out; two for one on its way in, which is read back.
  static constexpr std::uint64_t asides_for(std::uint64_t at_once) { return 3 * at_once; }

  std::size_t at_once() const noexcept override { return at_once_; }
  bool must_read_back() const noexcept override { return true; }

  ByteSpan take_aside() override { return asides_.take(); }
  void give_back(ByteSpan aside) override { asides_.give_back(aside); }

  void begin(SlotCopy& copy) override { begun_.push_back(&copy); }

  bool progress() override {
    const bool ended = end_batches();
    if (begun_.empty()) return ended;
    if (const Status given = stream_.give([this](device::Stream& to) { return submit(to); });
        !given.ok())
      break_off(given);
    return true;
  }

  bool wait() override {
    if (batches_.empty()) return false;
    (void)batches_.front().event->wait();
    return true;
  }

 private:
  struct Batch {
    std::shared_ptr<device::Event> event;
    std::vector<SlotCopy*> copies;
  };

  bool end_batches() {
    bool some = false;
    for (; !batches_.empty(); some = true) {
      const auto is_done = batches_.front().event->is_done();
      if (!is_done.ok()) {
        break_off(is_done.status());
        return true;
      }
      if (!*is_done) break;
      for (SlotCopy* const copy : batches_.front().copies) copy->end({});
      batches_.pop_front();
    }
    return some;
  }

  /// All that began, in the order of the stream: what comes back is what has arrived.
  Status submit(device::Stream& to) {
    TOWPATH_TRY(auto event, device_->create_event());
    std::vector<device::Copy> in, out;
    for (const SlotCopy* const copy : begun_) TOWPATH_TRY(add_pages(*copy, in, out));
    if (!in.empty()) TOWPATH_TRY(to.copy_batch(in));
    if (!out.empty()) TOWPATH_TRY(to.copy_batch(out));
    TOWPATH_TRY(to.record(*event));
    // What throws here leaves the copies with those that began, and the stream is dropped.
    batches_.push_back({std::move(event), {}});
    batches_.back().copies.swap(begun_);
    return {};
  }

  Status add_pages(const SlotCopy& copy, std::vector<device::Copy>& in,
                   std::vector<device::Copy>& out) const {
    std::uint64_t offset = 0;
    for (std::uint64_t layer = 0; layer < layout_.config().num_layers; ++layer) {
      for (std::uint64_t outer = 0; outer < layout_.config().outer_dim; ++outer) {
        TOWPATH_TRY(const layout::Extent page, layout_.memory_region({copy.slot, layer, outer}));
        if (!copy.in.empty())
          append(in, {page.address, address_of(copy.in.data()) + offset, page.size});
        if (!copy.out.empty())
          append(out, {address_of(copy.out.data()) + offset, page.address, page.size});
        offset += page.size;
      }
    }
    return {};
  }

  /// Pages that adjoin are one copy.
  static void append(std::vector<device::Copy>& copies, const device::Copy& next) {
    if (!copies.empty()) {
      device::Copy& last = copies.back();
      if (next.source == last.source + last.length && next.target == last.target + last.length) {
        last.length += next.length;
        return;
      }
    }
    copies.push_back(next);
  }

  /// All that are under way, once nothing moves.
  void break_off(const Status& why) {
    stream_.drop();
    for (const Batch& batch : batches_)
      for (SlotCopy* const copy : batch.copies) copy->end(why);
    batches_.clear();
    for (SlotCopy* const copy : std::exchange(begun_, {})) copy->end(why);
  }

  const layout::PhysicalLayout layout_;
  const memory::SharedDevice device_;
  device::BounceSlots asides_;
  const std::size_t at_once_;
  device::CopyStream stream_;
  std::deque<Batch> batches_;     // in the stream, the oldest first
  std::vector<SlotCopy*> begun_;  // for the next batch
};

Result<std::unique_ptr<SlotCopier>> for_device(const layout::PhysicalLayout& layout,
                                               memory::SharedDevice device, std::size_t at_once,
                                               std::uint64_t block_bytes) {
  const layout::Location& at = layout.location();
  if (at.kind == MemoryKind::device && at.device_id != device->info().ordinal)
    return error(Code::invalid_argument,
                 cat("the pool lies on device ", at.device_id, ", and device ",
                     device->info().ordinal, " was given to copy it"),
                 "give the device that the layout was allocated on");
  if (at_once == 0)
    return error(Code::invalid_argument, "no copies at once", "let copies_at_once be 1 or more");
  auto asides =
      device::BounceSlots::make_pinned(*device, {DeviceCopier::asides_for(at_once), block_bytes});
  if (!asides.ok())
    return error(asides.code(), cat("no room for ", at_once, " copies at once"),
                 "lower copies_at_once, or free some memory")
        .because(asides.status());
  return std::make_unique<DeviceCopier>(layout, std::move(device), *std::move(asides), at_once);
}

}  // namespace

Result<std::unique_ptr<SlotCopier>> SlotCopier::make(const layout::PhysicalLayout& layout,
                                                     memory::SharedDevice device,
                                                     std::size_t at_once) {
  TOWPATH_TRY(const std::uint64_t block_bytes, layout.config().block_bytes());
  const MemoryKind kind = layout.location().kind;
  if (kind == MemoryKind::device && device == nullptr)
    return error(Code::invalid_argument, "a pool in a device's memory, and no device to copy it",
                 "give the device that the layout was allocated on");
  if (kind == MemoryKind::device)
    return for_device(layout, std::move(device), at_once, block_bytes);
  TOWPATH_TRY(layout.bytes({0, 0, 0}).status());
  return std::make_unique<HostCopier>(layout, block_bytes);
}

}  // namespace towpath::kv
