#include <utility>

#include <towpath/core/format.h>
#include <towpath/memory/host_pages.h>
#include <towpath/sys/numa_placement.h>

namespace towpath::memory {
namespace {

void add_note(std::string& notes, std::string_view note) {
  if (note.empty()) return;
  notes += cat(notes.empty() ? "" : "; ", note);
}

Status place(HostPages& pages, const HostPagesOptions& options) {
  const Status status =
      sys::place_memory(pages.mapping.bytes(), {.node = *options.node,
                                                .policy = options.node_rule == NodeRule::required
                                                              ? sys::NodePolicy::bound
                                                              : sys::NodePolicy::preferred});
  if (status.ok()) pages.placement.node = options.node;
  if (options.node_rule == NodeRule::required) return status;
  add_note(pages.placement.note, status.message());
  return {};
}

Status touch(HostPages& pages, const HostPagesOptions& options) {
  TOWPATH_TRY(Touched touched,
              options.touch->touch(std::move(pages.mapping),
                                   {.node = options.node, .timeout = options.touch_timeout}));
  pages.mapping = std::move(touched.memory);
  pages.placement.touch_threads = touched.threads;
  add_note(pages.placement.note, touched.note);
  return {};
}

}  // namespace

Result<HostPages> HostPages::allocate(const HostPagesOptions& options) {
  TOWPATH_TRY(sys::MappedPages mapped,
              sys::map_pages({.size_bytes = options.size_bytes,
                              .huge = options.huge_pages,
                              .huge_page_bytes = options.huge_page_bytes}));
  HostPages pages{.mapping = std::move(mapped.mapping),
                  .placement = {.pages = mapped.kind, .page_bytes = mapped.page_bytes}};
  add_note(pages.placement.note, mapped.why_not);
  if (options.node) TOWPATH_TRY(place(pages, options));
  if (options.touch != nullptr) TOWPATH_TRY(touch(pages, options));
  return pages;
}

}  // namespace towpath::memory
