#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/layout/box_plan.h>

namespace towpath::layout {
namespace {

constexpr std::array kInnerAxes = {Axis::dim, Axis::head, Axis::token, Axis::outer, Axis::layer};

Status check_views(const TensorView& source, const TensorView& target) {
  if (source.element_bits() != target.element_bits())
    return error(Code::invalid_argument,
                 cat("layouts of different shape: element_bits is ", source.element_bits(),
                     " in the source and ", target.element_bits(), " in the target"),
                 "a copy converts no numbers");
  for (const Axis axis : kInnerAxes)
    if (source[axis].extent != target[axis].extent)
      return error(Code::invalid_argument,
                   cat("layouts of different shape: ", name_of(axis), " has ", source[axis].extent,
                       " indices in the source (", to_string(source), ") and ", target[axis].extent,
                       " in the target (", to_string(target), ")"),
                   "cut both to what they have in common: intersect(), or slice()");
  if (!target.is_apart())
    return error(Code::invalid_argument,
                 cat("elements of the target share bytes: ", to_string(target)),
                 "every stride must reach beyond all that it steps over");
  return {};
}

/// One dimension of a copy before it is known what folds: a step may lead to another region.
struct Step {
  std::uint64_t extent, source_stride, target_stride, source_region, target_region;

  bool changes_region() const { return source_region != 0 || target_region != 0; }
};

Step step_of(const AxisShape& source, const AxisShape& target) {
  return {source.extent, source.stride, target.stride, source.region_step, target.region_step};
}

/// A copy of one selection of everything but blocks.
class Copier {
 public:
  Copier(const TensorView& source, const TensorView& target) : source_(source), target_(target) {
    for (const Axis axis : kInnerAxes) add(step_of(source[axis], target[axis]), inner_);
    inner_.pieces.fold();
  }

  /// False: some piece is no whole bytes.
  bool append(const BlockGroup& group, std::vector<CopyBox>& out) const {
    const AxisShape& from = source_[Axis::block];
    const AxisShape& to = target_[Axis::block];
    Steps steps = inner_;
    Step block = step_of(from, to);
    block.extent = group.range.count;
    add(block, steps);
    add({group.repeats, group.source_step * from.stride, group.target_step * to.stride,
         group.source_step * from.region_step, group.target_step * to.region_step},
        steps);
    steps.pieces.fold();
    const std::uint64_t source_first = group.range.source_first;
    const std::uint64_t target_first = group.range.target_first;
    CopyBox box{.source_region = source_.parts().region + source_first * from.region_step,
                .source_offset = source_.parts().offset + source_first * from.stride,
                .target_region = target_.parts().region + target_first * to.region_step,
                .target_offset = target_.parts().offset + target_first * to.stride,
                .pieces = steps.pieces};
    return append_regions({steps.apart.data(), steps.count}, box, out);
  }

 private:
  struct Steps {
    PieceBox pieces{1};
    std::array<Step, PieceBox::kMaxRank> apart;  // those that change regions, innermost first
    std::size_t count = 0;
  };

  static void add(const Step& step, Steps& into) {
    if (step.extent <= 1) return;
    if (step.changes_region())
      into.apart[into.count++] = step;
    else
      into.pieces.add({step.extent, step.source_stride, step.target_stride});
  }

  bool append_regions(std::span<const Step> steps, CopyBox at, std::vector<CopyBox>& out) const {
    if (steps.empty()) return append_in_bytes(at, out);
    const Step& outermost = steps.back();
    for (std::uint64_t i = 0; i < outermost.extent; ++i) {
      if (!append_regions(steps.first(steps.size() - 1), at, out)) return false;
      at.source_region += outermost.source_region;
      at.source_offset += outermost.source_stride;
      at.target_region += outermost.target_region;
      at.target_offset += outermost.target_stride;
    }
    return true;
  }

  bool append_in_bytes(CopyBox box, std::vector<CopyBox>& out) const {
    PieceBox offsets(box.source_offset);  // converted by the same rule
    offsets.add({2, box.target_offset, 0});
    const unsigned bits = source_.element_bits();
    if (!box.pieces.to_bytes(bits) || !offsets.to_bytes(bits)) return false;
    box.source_offset = offsets.length();
    box.target_offset = offsets.dimensions().front().source_stride;
    out.push_back(box);
    return true;
  }

  const TensorView& source_;
  const TensorView& target_;
  Steps inner_;
};

/// Whether walking the target upwards walks the source upwards too.
bool keeps_order(const PieceBox& pieces) {
  std::vector<PieceBox::Dimension> order(pieces.dimensions().begin(), pieces.dimensions().end());
  std::ranges::sort(order, {}, &PieceBox::Dimension::target_stride);
  return std::ranges::is_sorted(order, {}, &PieceBox::Dimension::source_stride);
}

/// Makes `next` one more of `last` where it lies as far behind it as `last`'s outermost steps do,
/// or where it is the second.
struct Chain {
  CopyBox first;
  std::uint64_t count = 1;
  std::uint64_t source_step = 0;
  std::uint64_t target_step = 0;

  bool take(const CopyBox& next) {
    if (next.source_region != first.source_region || next.target_region != first.target_region ||
        !(next.pieces == first.pieces) || next.source_offset < first.source_offset ||
        next.target_offset < first.target_offset ||
        first.pieces.dimensions().size() == PieceBox::kMaxRank)
      return false;
    const std::uint64_t source_distance = next.source_offset - first.source_offset;
    const std::uint64_t target_distance = next.target_offset - first.target_offset;
    if (count == 1) {
      source_step = source_distance;
      target_step = target_distance;
    } else if (source_distance != source_step * count || target_distance != target_step * count) {
      return false;
    }
    ++count;
    return true;
  }
  CopyBox box() const {
    CopyBox all = first;
    all.pieces.add({count, source_step, target_step});
    all.pieces.fold();
    return all;
  }
};

/// A run like `at` for each point of `dimensions`, the first one running fastest.
void append_points(std::span<const PieceBox::Dimension> dimensions, CopyRun at,
                   std::vector<CopyRun>& out) {
  if (dimensions.empty()) {
    out.push_back(at);
    return;
  }
  const PieceBox::Dimension& outermost = dimensions.back();
  for (std::uint64_t i = 0; i < outermost.extent; ++i) {
    append_points(dimensions.first(dimensions.size() - 1), at, out);
    at.source_offset += outermost.source_stride;
    at.target_offset += outermost.target_stride;
  }
}

}  // namespace

PieceBox::Dimension PieceBox::take_longest() noexcept {
  if (rank_ == 0) return {};
  std::size_t longest = 0;
  for (std::size_t i = 1; i < rank_; ++i)
    if (dimensions_[i].extent > dimensions_[longest].extent) longest = i;
  const Dimension taken = dimensions_[longest];
  erase(longest);
  return taken;
}

std::uint64_t PieceBox::count() const noexcept {
  std::uint64_t product = 1;
  for (const Dimension& dimension : dimensions()) product *= dimension.extent;
  return product;
}

bool PieceBox::to_bytes(unsigned element_bits) noexcept {
  const std::uint64_t up = element_bits >= CHAR_BIT ? element_bits / CHAR_BIT : 1;
  const std::uint64_t down = element_bits >= CHAR_BIT ? 1 : CHAR_BIT / element_bits;
  bool is_whole = true;
  const auto convert = [&](std::uint64_t& elements) {
    is_whole = is_whole && elements % down == 0;
    elements = elements / down * up;
  };
  convert(length_);
  for (std::size_t i = 0; i < rank_; ++i) {
    convert(dimensions_[i].source_stride);
    convert(dimensions_[i].target_stride);
  }
  return is_whole;
}

bool operator==(const PieceBox& a, const PieceBox& b) noexcept {
  return a.length_ == b.length_ && std::ranges::equal(a.dimensions(), b.dimensions());
}

// Pieces that touch their next ones on both sides become longer pieces.
bool PieceBox::lengthen() noexcept {
  for (std::size_t i = 0; i < rank_; ++i) {
    const Dimension& d = dimensions_[i];
    if (d.source_stride != length_ || d.target_stride != length_) continue;
    length_ *= d.extent;
    erase(i);
    return true;
  }
  return false;
}

// A dimension that goes on where another one ends, at its strides, is more of it.
bool PieceBox::chain() noexcept {
  for (std::size_t inner = 0; inner < rank_; ++inner) {
    Dimension& d = dimensions_[inner];
    for (std::size_t outer = 0; outer < rank_; ++outer) {
      const Dimension& next = dimensions_[outer];
      if (inner == outer || next.source_stride != d.source_stride * d.extent ||
          next.target_stride != d.target_stride * d.extent)
        continue;
      d.extent *= next.extent;
      erase(outer);
      return true;
    }
  }
  return false;
}

void PieceBox::erase(std::size_t index) noexcept {
  std::copy(dimensions_.begin() + index + 1, dimensions_.begin() + rank_,
            dimensions_.begin() + index);
  --rank_;
}

std::string_view name_of(CopyForm form) noexcept {
  switch (form) {
    case CopyForm::empty: return "empty";
    case CopyForm::contiguous: return "contiguous";
    case CopyForm::strided: return "strided";
    case CopyForm::permuted: return "permuted";
  }
  return "unknown";
}

BoxPlan::BoxPlan(std::vector<CopyBox> boxes) : boxes_(std::move(boxes)) {
  for (const CopyBox& box : boxes_) {
    const std::uint64_t count = box.pieces.count();
    pieces_ += count;
    bytes_ += box.pieces.length() * count;
    shortest_ = shortest_ == 0 ? box.pieces.length() : std::min(shortest_, box.pieces.length());
  }
}

CopyForm BoxPlan::form() const {
  if (boxes_.empty()) return CopyForm::empty;
  if (pieces_ == 1) return CopyForm::contiguous;
  const bool in_order = std::ranges::all_of(boxes_, keeps_order, &CopyBox::pieces);
  return in_order ? CopyForm::strided : CopyForm::permuted;
}

Duration price(const BoxPlan& plan, const CopyCosts& costs) {
  const auto bytes =
      std::chrono::duration<double>(static_cast<double>(plan.bytes()) / costs.bytes_per_second);
  return std::chrono::duration_cast<Duration>(bytes) +
         costs.per_piece * static_cast<std::int64_t>(plan.pieces()) +
         costs.per_box * static_cast<std::int64_t>(plan.boxes().size());
}

Result<BoxPlan> plan_groups_of_blocks(const TensorView& source, const TensorView& target,
                                      std::span<const BlockGroup> groups) {
  TOWPATH_TRY(check_views(source, target));
  const Copier copier(source, target);
  std::vector<CopyBox> boxes;
  boxes.reserve(groups.size());
  for (const BlockGroup& group : groups)
    if (!copier.append(group, boxes))
      return error(Code::invalid_argument,
                   cat("sub_byte_split_must_be_whole_bytes: pieces of ", source.element_bits(),
                       "-bit elements between ", to_string(source), " and ", to_string(target),
                       " begin or end inside a byte"),
                   "keep elements that share a byte together on both sides");
  return BoxPlan(std::move(boxes));
}

Result<BoxPlan> plan_boxes(const TensorView& source, const TensorView& target,
                           std::span<const BlockRange> blocks, bool same_blocks) {
  TOWPATH_TRY(const std::vector<BlockGroup> groups,
              group_blocks(blocks, {.source_blocks = source[Axis::block].extent,
                                    .target_blocks = target[Axis::block].extent,
                                    .same_blocks = same_blocks}));
  return plan_groups_of_blocks(source, target, groups);
}

BoxPlan merged(BoxPlan plan) {
  std::vector<CopyBox> boxes(plan.boxes().begin(), plan.boxes().end());
  std::ranges::stable_sort(boxes, {}, [](const CopyBox& box) {
    return std::array{box.source_region, box.target_region, box.pieces.length(), box.target_offset};
  });
  std::vector<Chain> chains;
  for (const CopyBox& box : boxes)
    if (chains.empty() || !chains.back().take(box)) chains.push_back({.first = box});
  boxes.clear();
  for (const Chain& chain : chains) boxes.push_back(chain.box());
  return BoxPlan(std::move(boxes));
}

Plan to_runs(const BoxPlan& plan) {
  std::vector<CopyRun> runs;
  runs.reserve(plan.boxes().size());
  for (const CopyBox& box : plan.boxes()) {
    PieceBox pieces = box.pieces;
    const PieceBox::Dimension repeated = pieces.take_longest();
    const CopyRun run{.source_region = box.source_region,
                      .source_offset = box.source_offset,
                      .target_region = box.target_region,
                      .target_offset = box.target_offset,
                      .length = pieces.length(),
                      .count = repeated.extent,
                      .source_stride = repeated.source_stride,
                      .target_stride = repeated.target_stride};
    append_points(pieces.dimensions(), run, runs);
  }
  return Plan(std::move(runs));
}

}  // namespace towpath::layout
