#include <algorithm>
#include <memory>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/blobs/blob_store.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

using wire::Kind;

constexpr std::string_view kSuffix = ".blob", kUnfinished = "unfinished-";
constexpr std::size_t kMaxFileName = 200;
constexpr std::uint64_t kBlobPage = 4096;  // the header's, in which the bytes do not begin
constexpr std::uint64_t kPiece = 4 * kMiB;

constexpr wire::Tag kBlobName = wire::required(1), kBlobContext = wire::required(2),
                    kBlobLength = wire::required(3), kBlobAlgorithm = wire::required(4),
                    kBlobSalt = wire::required(5), kBlobDigest = wire::required(6);
constexpr wire::FieldRule kBlobRules[] = {
    {kBlobName, "name", Kind::bytes, wire::kOne, kMaxFileName},
    {kBlobContext, "context", Kind::bytes, wire::kOne, kMaxBlobContext},
    {kBlobLength, "length", Kind::number, wire::kOne, INT64_MAX - kBlobPage},
    {kBlobAlgorithm, "algorithm", Kind::number, wire::kOne, 2},
    {kBlobSalt, "salt", Kind::number, wire::kOne},
    {kBlobDigest, "digest", Kind::number, wire::kOne},
};
constexpr wire::Schema kBlobSchema("blob", kBlobRules);

Result<Bytes> seal_header(const BlobInfo& info) {
  wire::Encoder out(kBlobSchema);
  out.put_text(kBlobName, info.blob.name);
  out.put_text(kBlobContext, info.blob.context);
  out.put_number(kBlobLength, info.length);
  out.put_number(kBlobAlgorithm, static_cast<std::uint64_t>(info.digest.algorithm));
  out.put_number(kBlobSalt, info.digest.salt);
  out.put_number(kBlobDigest, info.digest.value);
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  Bytes page = wire::seal({.type = wire::MessageType::blob_header, .version = 1}, payload);
  page.resize(kBlobPage);
  return page;
}

Result<BlobInfo> open_header(ConstByteSpan page) {
  constexpr wire::OpenLimits kLimits{
      .type = wire::MessageType::blob_header, .max_version = 1, .max_payload_bytes = kBlobPage};
  TOWPATH_TRY(const wire::Header header, wire::read_header(page, kLimits));
  if (header.total_bytes() > page.size())
    return error(Code::corrupt, cat("a header of ", header.total_bytes(), " bytes in a page"));
  TOWPATH_TRY(const wire::Message message,
              wire::open(page.first(static_cast<std::size_t>(header.total_bytes())), kLimits));
  BlobInfo info;
  TOWPATH_TRY(wire::decode(
      wire::Decoder(message.payload, kBlobSchema), [&](const wire::Field& field) -> Status {
        switch (field.tag()) {
          case kBlobName: info.blob.name = field.text(); break;
          case kBlobContext: info.blob.context = field.text(); break;
          case kBlobLength: info.length = field.number(); break;
          case kBlobSalt: info.digest.salt = field.number(); break;
          case kBlobDigest: info.digest.value = field.number(); break;
          default:
            if (field.number() == 0) return field.refuse("no such algorithm");
            info.digest.algorithm = static_cast<DigestAlgorithm>(field.number());
        }
        return {};
      }));
  return info;
}

Status check_name(const BlobName& blob) {
  const std::size_t length = path_safe(blob.name).size();
  if (!blob.name.empty() && length <= kMaxFileName && blob.context.size() <= kMaxBlobContext)
    return {};
  return error(Code::invalid_argument,
               cat("a blob's name of ", length, " bytes and context of ", blob.context.size()),
               cat("names have 1 to ", kMaxFileName,
                   " bytes, written as %XX where they are not "
                   "letters, digits, '-', '_' or '.'; contexts at most ",
                   kMaxBlobContext));
}

Status damaged(const std::string& path, std::string_view what, Status cause = {}) {
  Status status = error(Code::corrupt, cat("the blob ", path, " ", what),
                        "make it anew, and look at the drive if this comes again");
  return cause.ok() ? status : std::move(status).because(std::move(cause));
}

/// Gone unless it is kept: what is half written is nobody's.
struct Unfinished {
  sys::FileSystem& files;
  std::unique_ptr<sys::File> file;
  bool keep = false;

  ~Unfinished() {
    if (!keep) (void)files.remove(file->path());
  }
};

}  // namespace

struct BlobStore::OpenBlob {
  std::unique_ptr<sys::File> file;
  BlobInfo info;
};

Result<BlobStore> BlobStore::open(sys::FileSystem& files, std::string directory) {
  TOWPATH_TRY(files.make_directories(directory));
  return BlobStore(files, std::move(directory));
}

std::string BlobStore::path_of(const std::string& name) const {
  return cat(directory_, "/", path_safe(name), kSuffix);
}

// Saving -----------------------------------------------------------------------------------------

Status BlobStore::save(const BlobName& blob, ConstByteSpan bytes) {
  TOWPATH_TRY(check_name(blob));
  TOWPATH_TRY(auto made,
              files_->open_temporary({.where = cat(directory_, "/", kUnfinished, "XXXXXX")}));
  Unfinished part{*files_, std::move(made)};
  TOWPATH_TRY(write(*part.file, blob, bytes));
  TOWPATH_TRY(files_->rename({.source = part.file->path(), .target = path_of(blob.name)}));
  part.keep = true;
  return files_->sync_directory(directory_);
}

Status BlobStore::write(sys::File& file, const BlobName& blob, ConstByteSpan bytes) const {
  TOWPATH_TRY(const Bytes header,
              seal_header({.blob = blob, .length = bytes.size(), .digest = digest_of(bytes, 0)}));
  TOWPATH_TRY(sys::write_exactly(file, header, 0));
  TOWPATH_TRY(sys::write_exactly(file, bytes, kBlobPage));
  return file.sync();
}

Status BlobStore::remove(const std::string& name) {
  TOWPATH_TRY(files_->remove(path_of(name)));
  return files_->sync_directory(directory_);
}

// Reading ----------------------------------------------------------------------------------------

Result<BlobStore::OpenBlob> BlobStore::open_blob(const std::string& path) const {
  TOWPATH_TRY(auto file, files_->open(path, {.plain = true}));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  if (size < kBlobPage) return damaged(path, cat("is torn: it has ", size, " bytes and no header"));
  Bytes page(kBlobPage);
  TOWPATH_TRY(sys::read_exactly(*file, page, 0));
  Result<BlobInfo> info = open_header(page);
  if (info.code() == Code::unsupported)
    return error(Code::unsupported, cat("the blob ", path, " is of a newer release"),
                 "read it with that release, or make it anew")
        .because(info.status());
  if (!info.ok()) return damaged(path, "has a damaged header", info.status());
  if (size != kBlobPage + info->length)
    return damaged(path, cat(size < kBlobPage + info->length ? "is torn" : "is too long",
                             ": it has ", size - kBlobPage, " of ", info->length, " bytes"));
  if (path != path_of(info->blob.name))
    return damaged(path, cat("is the blob '", printable(info->blob.name), "' by its header"));
  return OpenBlob{std::move(file), *std::move(info)};
}

Result<BlobInfo> BlobStore::find(const std::string& name) const {
  TOWPATH_TRY(OpenBlob blob, open_blob(path_of(name)));
  return std::move(blob.info);
}

/// By way of `piece`, again and again, or, to keep, all of it at once.
Status BlobStore::check(const OpenBlob& blob, ByteSpan piece, bool keep) const {
  Digester digester(blob.info.digest.salt, blob.info.digest.algorithm);
  for (std::uint64_t at = 0; at < blob.info.length;) {
    const std::uint64_t length = std::min<std::uint64_t>(kPiece, blob.info.length - at);
    const ByteSpan into = piece.subspan(keep ? at : 0, length);
    TOWPATH_TRY(sys::read_exactly(*blob.file, into, kBlobPage + at));
    digester.add(into);
    at += length;
  }
  const Digest found = digester.finish();
  if (found == blob.info.digest) return {};
  return damaged(blob.file->path(), cat("is not what was saved: its bytes are ", to_string(found),
                                        ", not ", to_string(blob.info.digest)));
}

Status BlobStore::restore(const BlobName& wanted, ByteSpan into) const {
  std::ranges::fill(into, std::byte{0});
  TOWPATH_TRY(const OpenBlob blob, open_blob(path_of(wanted.name)));
  if (blob.info.blob.context != wanted.context)
    return error(
        Code::invalid_argument,
        cat("blob '", printable(wanted.name), "' is of '", printable(blob.info.blob.context),
            "', not of '", printable(wanted.context), "'"),
        "restore it for what it was saved for");
  if (blob.info.length != into.size())
    return error(Code::invalid_argument,
                 cat("blob '", printable(wanted.name), "' has ", blob.info.length,
                     " bytes; room was given for ", into.size()),
                 "ask find() for the length");
  const Status proven = check(blob, into, true);
  if (!proven.ok()) std::ranges::fill(into, std::byte{0});
  return proven;
}

Status BlobStore::verify(const std::string& name) const {
  TOWPATH_TRY(const OpenBlob blob, open_blob(path_of(name)));
  Bytes piece(static_cast<std::size_t>(std::min(kPiece, blob.info.length)));
  return check(blob, piece, false);
}

Result<std::vector<BlobStore::Entry>> BlobStore::list() const {
  TOWPATH_TRY(const std::vector<std::string> names, files_->list(directory_));
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const std::string path = cat(directory_, "/", name);
    if (name.ends_with(kSuffix)) {  // first: a blob may be called as if it were unfinished
      Result<OpenBlob> blob = open_blob(path);
      entries.push_back({name, blob.ok() ? blob->info : BlobInfo(), blob.status()});
    } else if (name.starts_with(kUnfinished)) {
      entries.push_back(
          {name, {}, damaged(path, "is unfinished: its save did not end, or has not yet")});
    }
  }
  return entries;
}

}  // namespace towpath::kv
