#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/shmem/heap_memory.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/numa_placement.h>
#include <towpath/sys/shared_pages.h>

namespace towpath::shmem {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20;

void add_note(memory::Placement& placement, const Status& why) {
  placement.note += cat(placement.note.empty() ? "" : "; ", why.message());
}

/// A free place that begins at a multiple of a huge page, or null. Others may take it first.
void* find_room(std::uint64_t bytes) {
  const auto room = sys::Mapping::anonymous(bytes + kHugePage);
  if (!room.ok()) return nullptr;
  return reinterpret_cast<void*>(*align_up(address_of(room->data()), kHugePage));
}

/// Whoever touches a page first brings it, so each mapping has the wish.
Status wish_huge_pages(std::span<const sys::Mapping> heaps) {
  for (const sys::Mapping& heap : heaps)
    if (heap) TOWPATH_TRY(sys::ask_for_transparent_pages(heap.bytes()));
  return {};
}

Status place_on_node(ByteSpan heap, const HeapPages& pages) {
  return sys::place_memory(
      heap, {.node = *pages.node,
             .policy = pages.node_rule == memory::NodeRule::required ? sys::NodePolicy::bound
                                                                     : sys::NodePolicy::preferred});
}

}  // namespace

Result<sys::Mapping> map_heap(const JobHeader& job, const MapHeap& heap) {
  TOWPATH_TRY(sys::check_sealed(heap.fd, job.heap_bytes));
  sys::MapFile options{.fd = heap.fd, .size_bytes = job.heap_bytes, .at = heap.at};
  if (options.at == nullptr && job.wants_huge_pages != 0) options.at = find_room(job.heap_bytes);
  if (options.at != nullptr)
    if (auto there = sys::Mapping::of_file(options); there.ok()) return there;
  options.at = nullptr;
  return sys::Mapping::of_file(options);
}

Result<memory::Placement> place_heaps(const JobHeader& job, std::span<const sys::Mapping> heaps,
                                      ByteSpan mine, const HeapPages& pages) {
  memory::Placement placement{.pages = sys::PageKind::ordinary, .page_bytes = sys::page_size()};
  if (job.heap_page_bytes != 0)
    placement = {.pages = sys::PageKind::reserved, .page_bytes = job.heap_page_bytes};
  if (job.wants_huge_pages != 0) {
    const Status wished = wish_huge_pages(heaps);
    if (wished.ok()) placement.pages = sys::PageKind::transparent;
    if (!wished.ok()) add_note(placement, wished);
  }
  if (!pages.node) return placement;
  Status placed = place_on_node(mine, pages);
  if (placed.ok()) {
    placement.node = pages.node;
  } else {
    if (pages.node_rule == memory::NodeRule::required) return placed;
    add_note(placement, placed);
  }
  return placement;
}

}  // namespace towpath::shmem
