// What a message may hold, as data: both the encoder and the decoder obey it, so a sender cannot
// make what a receiver of its own version would refuse, and no author writes a bounds check twice.
//
//   constexpr Tag kName = required(1), kNote = optional(2), kRegion = required(3);
//   constexpr FieldRule kMetadataRules[] = {
//       {kName, "name", Kind::bytes, kOne, 1024},
//       {kNote, "note", Kind::bytes, kAtMostOne, 256},
//       {kRegion, "region", Kind::nested, at_most(100'000), 4096, &kRegionSchema},
//   };
//   constexpr Schema kMetadataSchema("metadata", kMetadataRules);
//
// How a message grows: a new field gets a new tag, never an old one. With an optional tag old
// readers skip it; with a required one they refuse the message and name the field. New fields have
// the count kAtMostOne or at_most(), so that old messages stay readable.
// Thread: immutable, except Tally.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <towpath/core/status.h>

namespace towpath::wire {

/// A field's number, 1 to 0x7fff, and in the top bit whether a reader must know it. The bit is part
/// of the tag: required(1) and optional(1) are two fields (use only one of them).
enum class Tag : std::uint16_t {};

inline constexpr std::uint16_t kRequiredBit = 0x8000;
constexpr Tag required(std::uint16_t number) noexcept { return Tag(number | kRequiredBit); }
constexpr Tag optional(std::uint16_t number) noexcept { return Tag(number & ~kRequiredBit); }
constexpr bool is_required(Tag tag) noexcept {
  return (static_cast<std::uint16_t>(tag) & kRequiredBit) != 0;
}
constexpr std::uint16_t number_of(Tag tag) noexcept {
  return static_cast<std::uint16_t>(tag) & static_cast<std::uint16_t>(~kRequiredBit);
}

/// How a field's value is written.
enum class Kind : std::uint8_t {
  number = 1,  ///< up to 64 bits, as many bytes as it needs
  bytes = 2,   ///< any bytes; text too
  nested = 3,  ///< fields again
};

/// "number", "bytes", "nested", "unknown".
std::string_view name_of(Kind kind) noexcept;

/// How often a field stands in its message.
struct Count {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};
inline constexpr Count kOne{1, 1};
inline constexpr Count kAtMostOne{0, 1};
constexpr Count at_most(std::uint32_t max) noexcept { return {0, max}; }

struct Schema;

struct FieldRule {
  Tag tag{};
  std::string_view name;  ///< for errors
  Kind kind = Kind::number;
  Count count = kOne;
  std::uint64_t max = UINT64_MAX;  ///< the largest number, or the most bytes
  const Schema* nested = nullptr;  ///< of a nested field, and only of one
};

inline constexpr std::size_t kMaxRules = 32;
/// How deep fields nest, whatever a schema that contains itself would allow.
inline constexpr std::size_t kMaxDepth = 8;

/// GCC 12 with -fsanitize=undefined does not take "this address is not null" for a constant.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
inline constexpr bool kCanAskForNull = false;
#else
inline constexpr bool kCanAskForNull = true;
#endif

struct Schema {
  /// `rules` must outlive the schema (constants do). What makes no sense does not compile.
  template <std::size_t N>
  consteval Schema(std::string_view schema_name, const FieldRule (&schema_rules)[N])
      : name(schema_name), rules(schema_rules) {
    static_assert(N <= kMaxRules, "a message of more fields: nest some");
    for (std::size_t i = 0; i < N; ++i) {
      const FieldRule& rule = schema_rules[i];
      if (number_of(rule.tag) == 0) field_number_0_is_reserved();
      if (kCanAskForNull && (rule.kind == Kind::nested) != (rule.nested != nullptr))
        nested_needs_a_schema();
      if (rule.count.max == 0 || rule.count.min > rule.count.max) count_allows_nothing();
      if (rule.count.min > 0) ++wanted;
      for (std::size_t j = 0; j < i; ++j)
        if (number_of(schema_rules[j].tag) == number_of(rule.tag)) field_number_used_twice();
    }
  }

  std::string_view name;
  std::span<const FieldRule> rules;
  std::size_t wanted = 0;  ///< rules whose field may not be missing

 private:
  // Not constexpr: a schema that reaches one does not compile, and the compiler names it.
  static void field_number_0_is_reserved() {}
  static void nested_needs_a_schema() {}
  static void count_allows_nothing() {}
  static void field_number_used_twice() {}
};

/// A value on its way into or out of a message, as its rule sees it.
struct FieldValue {
  Kind kind = Kind::number;
  std::uint64_t amount = 0;  ///< the number, or how many bytes
  std::size_t offset = 0;    ///< where the field begins, for errors
};

/// Holds the fields of one message against its schema: the one place that decides what is skipped
/// and what is refused. Thread: one at a time.
class Tally {
 public:
  enum class Side : std::uint8_t { reading, writing };

  /// `depth` is 0 for the message itself, one more for each field around.
  Tally(const Schema& schema, Side side, std::size_t depth) noexcept
      : schema_(&schema), side_(side), depth_(depth) {}

  const Schema& schema() const noexcept { return *schema_; }
  std::size_t depth() const noexcept { return depth_; }

  /// The rule of a known tag, else null. Cost: one comparison for fields in the schema's order.
  const FieldRule* find(Tag tag) noexcept {
    const auto rules = schema_->rules;
    const bool is_next = next_ < rules.size() && rules[next_].tag == tag;
    return is_next ? rule_at(next_) : search(tag);
  }
  /// Whether a field of unknown tag can be left out; only a reader can. Errors: unsupported.
  Status unknown(Tag tag, std::size_t offset) const;
  /// Counts a known field. Errors: corrupt (another kind, once too often), out_of_range (over the
  /// rule's max, nested too deep); invalid_argument in place of corrupt for a writer.
  Status add(const FieldRule& rule, const FieldValue& value) {
    std::uint32_t& count = counts_[static_cast<std::size_t>(&rule - schema_->rules.data())];
    const bool is_allowed = value.kind == rule.kind && value.amount <= rule.max &&
                            count != rule.count.max &&
                            (rule.kind != Kind::nested || depth_ != kMaxDepth);
    if (!is_allowed) return refuse(rule, value);
    if (++count == rule.count.min) ++found_;
    return {};
  }
  /// At the message's end. Errors: corrupt, or invalid_argument, if a field is missing.
  Status complete() const { return found_ == schema_->wanted ? Status() : missing(); }

 private:
  Code broken() const noexcept {
    return side_ == Side::reading ? Code::corrupt : Code::invalid_argument;
  }

  /// The field that comes next has its rule here, or behind it.
  const FieldRule* rule_at(std::size_t at) noexcept {
    const FieldRule& rule = schema_->rules[at];
    // A field that may stand again probably does; after any other comes its neighbour.
    next_ = rule.count.max > 1 ? at : at + 1;
    return &rule;
  }
  const FieldRule* search(Tag tag) noexcept;
  Status refuse(const FieldRule& rule, const FieldValue& value) const;
  Status missing() const;

  const Schema* schema_;
  Side side_;
  std::size_t depth_;
  std::size_t next_ = 0;   ///< where find() looks first
  std::size_t found_ = 0;  ///< rules of those wanted whose field stands there often enough
  std::array<std::uint32_t, kMaxRules> counts_{};
};

/// "metadata: field name (required 1) at byte 12", the beginning of every complaint.
std::string describe(const Schema& schema, const FieldRule& rule, std::size_t offset);

}  // namespace towpath::wire
