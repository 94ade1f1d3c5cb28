// HostPages: memory of this process with a say in which pages it lies and near which processors,
// and what was had of that. The stuff that SystemRegion and pinned memory are made of. Thread:
// immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/node_workers.h>
#include <towpath/sys/huge_pages.h>
#include <towpath/sys/mapping.h>

namespace towpath::memory {

enum class NodeRule : std::uint8_t {
  best_effort,  ///< there if it can be; Placement::note says when not
  required,     ///< there, or an error
};

struct HostPagesOptions {
  std::uint64_t size_bytes = 0;
  sys::HugePages huge_pages = sys::HugePages::off;
  std::uint64_t huge_page_bytes = 0;  ///< 0: the smallest that has enough free pages
  std::optional<unsigned> node;       ///< the NUMA node to lie on; nothing: as the kernel likes
  NodeRule node_rule = NodeRule::best_effort;
  /// Who touches all pages at once, while the call waits; null: nobody, pages come when used.
  NodeWorkers* touch = nullptr;
  Duration touch_timeout{0};  ///< 0: by the size (node_workers.h)
};

/// What was had.
struct Placement {
  sys::PageKind pages = sys::PageKind::ordinary;
  std::uint64_t page_bytes = 0;
  std::optional<unsigned> node;  ///< which the kernel promised
  unsigned touch_threads = 0;    ///< that took part; 0: not touched
  std::string note;              ///< what was wanted and not had, and why; empty: nothing
};

struct HostPages {
  sys::Mapping mapping;  ///< rounded up to whole huge pages, where it lies in reserved ones
  Placement placement;

  /// Zeroed. Errors: those of sys::map_pages, of sys::place_memory (required), of
  /// NodeWorkers::touch.
  static Result<HostPages> allocate(const HostPagesOptions& options);
};

}  // namespace towpath::memory
