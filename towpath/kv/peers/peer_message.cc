#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/numbers.h>
#include <towpath/kv/peers/peer_message.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

using wire::Kind;

constexpr std::uint64_t kMaxPackage = 8 * kMiB, kMaxListed = 8 * kMaxHashesListed,
                        kMaxNameSpace = 1024;
constexpr std::uint64_t kMaxTenants = 8 * 2 * kMaxTenantRuns;  // a tenant, and how many blocks
constexpr std::size_t kGrantedNumbers = 5;                     // hash, slot, algorithm, salt, value

constexpr wire::Tag kWord = wire::required(1), kSession = wire::required(2),
                    kAsked = wire::required(3), kGranted = wire::required(4),
                    kLease = wire::required(5), kChangesLayout = wire::optional(6),
                    kFrom = wire::optional(7), kTo = wire::optional(8), kStored = wire::optional(9),
                    kLost = wire::optional(10), kStoredTenants = wire::optional(11),
                    kNotNow = wire::optional(12), kAskedParents = wire::optional(13),
                    kGrantedParents = wire::optional(14);
constexpr wire::FieldRule kPeerRules[] = {
    {kWord, "word", Kind::number, wire::kOne, 5},
    {kSession, "session", Kind::number, wire::kOne},
    {kAsked, "hashes", Kind::bytes, wire::kOne, 8 * kMaxBlocksAsked},
    {kGranted, "granted", Kind::bytes, wire::kOne, 8 * kGrantedNumbers* kMaxBlocksAsked},
    {kLease, "lease", Kind::number, wire::kOne, INT64_MAX},
    {kChangesLayout, "layout", Kind::number, wire::kAtMostOne},
    {kFrom, "from edition", Kind::number, wire::kAtMostOne},
    {kTo, "to edition", Kind::number, wire::kAtMostOne},
    {kStored, "stored", Kind::bytes, wire::kAtMostOne, 8 * kMaxChangesReported},
    {kLost, "lost", Kind::bytes, wire::kAtMostOne, 8 * kMaxChangesReported},
    {kStoredTenants, "tenants", Kind::bytes, wire::kAtMostOne, kMaxTenants},
    {kNotNow, "not now", Kind::bytes, wire::kAtMostOne, 8 * kMaxBlocksAsked},
    {kAskedParents, "parents asked for", Kind::bytes, wire::kAtMostOne, 8 * kMaxBlocksAsked},
    {kGrantedParents, "parents granted", Kind::bytes, wire::kAtMostOne, 8 * kMaxBlocksAsked},
};
constexpr wire::Schema kPeerSchema("peer message", kPeerRules);

constexpr wire::Tag kNameSpace = wire::required(1), kPackage = wire::required(2),
                    kLayoutId = wire::required(3), kListed = wire::required(4),
                    kEdition = wire::optional(5), kListedTenants = wire::optional(6);
constexpr wire::FieldRule kCatalogueRules[] = {
    {kNameSpace, "name space", Kind::bytes, wire::kOne, kMaxNameSpace},
    {kPackage, "package", Kind::bytes, wire::kOne, kMaxPackage},
    {kLayoutId, "layout", Kind::number, wire::kOne},
    {kListed, "hashes", Kind::bytes, wire::kOne, kMaxListed},
    {kEdition, "edition", Kind::number, wire::kAtMostOne},
    {kListedTenants, "tenants", Kind::bytes, wire::kAtMostOne, kMaxTenants},
};
constexpr wire::Schema kCatalogueSchema("block catalogue", kCatalogueRules);

Result<std::vector<GrantedBlock>> unpack_granted(const wire::Field& field) {
  TOWPATH_TRY(const std::vector<std::uint64_t> numbers, unpack_numbers(field));
  if (numbers.size() % kGrantedNumbers != 0) return field.refuse("not whole blocks");
  std::vector<GrantedBlock> granted;
  for (std::size_t i = 0; i < numbers.size(); i += kGrantedNumbers) {
    if (numbers[i + 2] != 1 && numbers[i + 2] != 2) return field.refuse("no digest algorithm");
    granted.push_back(
        {numbers[i],
         numbers[i + 1],
         {static_cast<DigestAlgorithm>(numbers[i + 2]), numbers[i + 3], numbers[i + 4]}});
  }
  return granted;
}

std::vector<std::uint64_t> numbers_of(const std::vector<GrantedBlock>& granted) {
  std::vector<std::uint64_t> numbers;
  for (const GrantedBlock& block : granted)
    numbers.insert(numbers.end(),
                   {block.hash, block.slot, static_cast<std::uint64_t>(block.digest.algorithm),
                    block.digest.salt, block.digest.value});
  return numbers;
}

/// How many blocks behind one another are of a tenant, each time; what is behind the last is
/// nobody's.
std::vector<std::uint64_t> runs_of(const std::vector<TenantId>& tenants) {
  std::vector<std::uint64_t> runs;
  for (const TenantId tenant : tenants) {
    if (runs.empty() || runs[runs.size() - 2] != tenant) {
      if (runs.size() == 2 * kMaxTenantRuns) break;
      runs.insert(runs.end(), {tenant, 0});
    }
    ++runs.back();
  }
  if (runs.size() == 2 && runs.front() == 0) runs.clear();
  return runs;
}

Result<std::vector<TenantId>> unpack_tenants(const wire::Field& field, std::size_t most) {
  TOWPATH_TRY(const std::vector<std::uint64_t> runs, unpack_numbers(field));
  if (runs.size() % 2 != 0) return field.refuse("a tenant and a number of blocks, each time");
  std::vector<TenantId> tenants;
  for (std::size_t i = 0; i < runs.size(); i += 2) {
    if (runs[i + 1] > most - tenants.size())
      return field.refuse("tenants of more blocks than may be");
    tenants.insert(tenants.end(), runs[i + 1], runs[i]);
  }
  return tenants;
}

/// As many as blocks; those nobody has spoken of are nobody's.
Status match_tenants(std::vector<TenantId>& tenants, std::size_t blocks) {
  if (tenants.size() > blocks)
    return error(Code::corrupt,
                 cat("tenants of ", tenants.size(), " blocks, and there are ", blocks),
                 "both sides must be of one release");
  tenants.resize(blocks);
  if (std::ranges::all_of(tenants, [](TenantId tenant) { return tenant == 0; })) tenants.clear();
  return {};
}

std::vector<BlockHash> parents_of(const std::vector<GrantedBlock>& granted) {
  std::vector<BlockHash> parents;
  for (const GrantedBlock& block : granted) parents.push_back(block.parent.value_or(0));
  return parents;
}

/// Nothing: nobody knows one.
void put_parents(wire::Encoder& out, wire::Tag tag, const std::vector<BlockHash>& parents) {
  if (std::ranges::any_of(parents, [](BlockHash parent) { return parent != 0; }))
    out.put_bytes(tag, pack_numbers(parents));
}

/// As many as blocks, or none.
Status match_parents(std::vector<BlockHash>& parents, std::size_t blocks) {
  if (!parents.empty() && parents.size() != blocks)
    return error(Code::corrupt,
                 cat("parents of ", parents.size(), " blocks, and there are ", blocks),
                 "both sides must be of one release");
  if (std::ranges::all_of(parents, [](BlockHash parent) { return parent == 0; })) parents.clear();
  return {};
}

Status take_word(const wire::Field& field, PeerMessage& message) {
  switch (field.tag()) {
    case kWord:
      if (field.number() == 0) return field.refuse("no word");
      message.word = static_cast<PeerMessage::Word>(field.number());
      break;
    case kSession: message.session = field.number(); break;
    case kLease: message.lease = Duration(static_cast<std::int64_t>(field.number())); break;
    case kChangesLayout: message.changes.layout = field.number(); break;
    case kFrom: message.changes.from = field.number(); break;
    case kTo: message.changes.to = field.number(); break;
    case kStored: {
      TOWPATH_TRY(message.changes.stored, unpack_numbers(field));
      break;
    }
    case kLost: {
      TOWPATH_TRY(message.changes.lost, unpack_numbers(field));
      break;
    }
    case kStoredTenants: {
      TOWPATH_TRY(message.changes.tenants, unpack_tenants(field, kMaxChangesReported));
      break;
    }
    case kNotNow: {
      TOWPATH_TRY(message.not_now, unpack_numbers(field));
      break;
    }
    case kAsked: {
      TOWPATH_TRY(message.hashes, unpack_numbers(field));
      break;
    }
    case kAskedParents: {
      TOWPATH_TRY(message.parents, unpack_numbers(field));
      break;
    }
    case kGranted: {
      TOWPATH_TRY(message.granted, unpack_granted(field));
      break;
    }
  }
  return {};
}

/// Old readers know no such fields, and skip them; what is not told is 0, or nothing.
void put_changes(wire::Encoder& out, const CatalogueChanges& changes) {
  if (changes == CatalogueChanges()) return;
  out.put_number(kChangesLayout, changes.layout);
  out.put_number(kFrom, changes.from);
  out.put_number(kTo, changes.to);
  out.put_bytes(kStored, pack_numbers(changes.stored));
  out.put_bytes(kLost, pack_numbers(changes.lost));
  if (const auto runs = runs_of(changes.tenants); !runs.empty())
    out.put_bytes(kStoredTenants, pack_numbers(runs));
}

}  // namespace

Result<Bytes> encode(const PeerMessage& message) {
  wire::Encoder out(kPeerSchema);
  out.put_number(kWord, static_cast<std::uint64_t>(message.word));
  out.put_number(kSession, message.session);
  out.put_bytes(kAsked, pack_numbers(message.hashes));
  out.put_bytes(kGranted, pack_numbers(numbers_of(message.granted)));
  out.put_number(kLease, static_cast<std::uint64_t>(message.lease.count()));
  put_changes(out, message.changes);
  if (!message.not_now.empty()) out.put_bytes(kNotNow, pack_numbers(message.not_now));
  put_parents(out, kAskedParents, message.parents);
  put_parents(out, kGrantedParents, parents_of(message.granted));
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::block_lease, .version = 1}, payload);
}

Result<PeerMessage> decode_peer_message(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message opened, wire::open(bytes, {.type = wire::MessageType::block_lease,
                                                             .max_version = 1,
                                                             .max_payload_bytes = kMiB}));
  PeerMessage message;
  std::vector<BlockHash> parents;  // of what is granted
  TOWPATH_TRY(wire::decode(wire::Decoder(opened.payload, kPeerSchema),
                           [&](const wire::Field& field) -> Status {
                             if (field.tag() != kGrantedParents) return take_word(field, message);
                             TOWPATH_TRY(parents, unpack_numbers(field));
                             return {};
                           }));
  TOWPATH_TRY(match_tenants(message.changes.tenants, message.changes.stored.size()));
  TOWPATH_TRY(match_parents(message.parents, message.hashes.size()));
  TOWPATH_TRY(match_parents(parents, message.granted.size()));
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (parents[i] != 0) message.granted[i].parent = parents[i];
  return message;
}

Result<Bytes> encode(const Catalogue& catalogue) {
  wire::Encoder out(kCatalogueSchema);
  out.put_text(kNameSpace, catalogue.name_space);
  out.put_bytes(kPackage, catalogue.package);
  out.put_number(kLayoutId, catalogue.layout);
  out.put_bytes(kListed, pack_numbers(catalogue.hashes));
  if (catalogue.edition) out.put_number(kEdition, *catalogue.edition);
  if (const auto runs = runs_of(catalogue.tenants); !runs.empty())
    out.put_bytes(kListedTenants, pack_numbers(runs));
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::block_catalogue, .version = 1}, payload);
}

Result<Catalogue> decode_catalogue(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message opened,
              wire::open(bytes, {.type = wire::MessageType::block_catalogue,
                                 .max_version = 1,
                                 .max_payload_bytes = 3 * kMaxPackage}));
  Catalogue catalogue;
  TOWPATH_TRY(wire::decode(
      wire::Decoder(opened.payload, kCatalogueSchema), [&](const wire::Field& field) -> Status {
        switch (field.tag()) {
          case kNameSpace: catalogue.name_space = field.text(); return {};
          case kLayoutId: catalogue.layout = field.number(); return {};
          case kEdition: catalogue.edition = field.number(); return {};
          case kPackage:
            catalogue.package.assign(field.bytes().begin(), field.bytes().end());
            return {};
          case kListedTenants: {
            TOWPATH_TRY(catalogue.tenants, unpack_tenants(field, kMaxHashesListed));
            return {};
          }
          default: break;
        }
        TOWPATH_TRY(catalogue.hashes, unpack_numbers(field));
        return {};
      }));
  TOWPATH_TRY(match_tenants(catalogue.tenants, catalogue.hashes.size()));
  return catalogue;
}

}  // namespace towpath::kv
