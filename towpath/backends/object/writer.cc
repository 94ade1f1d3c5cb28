#include <utility>

#include <towpath/backends/object/writer.h>
#include <towpath/backends/object/xml.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

constexpr std::uint64_t kMaxParts = 10'000;  // of S3 ("Amazon S3 multipart upload limits")
const NameValue kBytes{"content-type", "application/octet-stream"};
const NameValue kXml{"content-type", "application/xml"};

/// A store says 200 before it has begun: only the body behind it says that the object is in place.
Status check_completed(const net::HttpResponse& response) {
  const auto xml = parse_xml(as_text(response.body));
  if (xml.ok() && xml->name == "CompleteMultipartUploadResult") return {};
  return error(Code::unavailable,
               cat("the store answered ", response.status,
                   " and did not say that the object is in place"),
               "see whether it is (a query), or post again")
      .because(xml.status());
}

/// A store that forgot the upload may have completed it: where the answer to that is lost, the
/// completion is asked for again, by us or by libcurl.
Status why_not_completed(const Status& why) {
  if (why.code() != Code::not_found) return why;
  return error(Code::unavailable,
               cat("the upload was completed and its answer lost, or it was aborted; ",
                   why.message()),
               "see whether the object is in place (a query), or post again")
      .because(why.cause());
}

}  // namespace

std::uint64_t part_size(std::uint64_t size_bytes, std::uint64_t part_bytes) {
  if (size_bytes / part_bytes < kMaxParts) return part_bytes;
  const std::uint64_t least = size_bytes / kMaxParts + 1;
  return (least + kMiB - 1) / kMiB * kMiB;
}

std::string completion_of(const std::vector<std::string>& tags) {
  std::string body = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < tags.size(); ++i)
    body += cat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", escape_xml(tags[i]),
                "</ETag></Part>");
  return body + "</CompleteMultipartUpload>";
}

void abort_upload(Client& client, Counters& counters, const telemetry::Log& log,
                  const ObjectName& name, const std::string& upload) {
  counters.aborts.add();
  client.ask({.method = "DELETE", .name = name, .query = {{"uploadId", upload}}},
             [&log, name, upload](const Result<net::HttpResponse>& response) {
               if (response.ok() || response.code() == Code::not_found) return;
               log.warning("parts of an upload are left in the store",
                           {{"object", to_string(name)},
                            {"upload", printable(upload)},
                            {"why", response.status().to_string()},
                            {"hint", "give the bucket a rule that ends incomplete uploads"}});
             });
}

void Writer::start(const Plan& plan) {
  uploads_.clear();
  for (const Share& share : plan.shares()) {
    const Place place = uploads_.emplace(uploads_.end());
    place->share = &share;
    place->size_bytes = share.end();
    plan_parts(*place);
    if (const Status whole = check_whole(share); !whole.ok()) finish(place, whole);
  }
}

void Writer::plan_parts(Upload& upload) const {
  const BackendOptions& options = asks_.client().options();
  if (upload.size_bytes <= options.multipart_bytes) return;  // no parts
  upload.part_bytes = part_size(upload.size_bytes, options.part_bytes);
  upload.tags.resize((upload.size_bytes + upload.part_bytes - 1) / upload.part_bytes);
}

bool Writer::issue() {
  for (Place place = uploads_.begin(); place != uploads_.end(); ++place) {
    if (issue(place)) return true;
  }
  return false;
}

bool Writer::issue(Place place) {
  switch (place->state) {
    case State::fresh: place->tags.empty() ? put(place) : create(place); return true;
    case State::sending:
      if (place->next_part == place->tags.size()) return false;
      put_part(place);
      return true;
    default: return false;
  }
}

// ---- In one request

void Writer::put(Place place) {
  place->state = State::putting;
  auto body = std::make_shared<Gather>(place->share->pieces, 0, place->size_bytes);
  asks_.ask({.method = "PUT",
             .name = place->share->object->name(),
             .headers = {kBytes},
             .source = body.get(),
             .put_checksum = asks_.client().options().put_checksum},
            [this, place, body](const Result<net::HttpResponse>& response) {
              finish(place, response.status());
            });
}

// ---- In parts

void Writer::create(Place place) {
  place->state = State::creating;
  place->abandoned = std::make_shared<bool>(false);
  counters_.uploads.add();
  Client& client = asks_.client();
  const ObjectName name = place->share->object->name();
  // Not of the operation: were it cancelled on its way, nobody would know the upload to take back.
  client.ask({.method = "POST", .name = name, .query = {{"uploads", ""}}, .headers = {kBytes}},
             [this, place, &client, &counters = counters_, &log = log_, name,
              abandoned = place->abandoned](const Result<net::HttpResponse>& response) {
               if (!*abandoned) return created(place, response);
               if (!response.ok()) return;
               const auto xml = parse_xml(as_text(response->body));
               if (xml.ok() && !xml->field("UploadId").empty())
                 abort_upload(client, counters, log, name, std::string(xml->field("UploadId")));
             });
}

void Writer::created(Place place, const Result<net::HttpResponse>& response) {
  place->abandoned.reset();
  place->state = State::sending;
  Status why = response.status();
  if (response.ok()) {
    const auto xml = parse_xml(as_text(response->body));
    if (xml.ok()) place->id = xml->field("UploadId");
    if (place->id.empty())
      why = error(Code::corrupt, "the store began an upload and did not say which",
                  "use a store that knows uploads in parts, or raise multipart_bytes");
  }
  if (!why.ok()) finish(place, why);
  asks_.step();
}

void Writer::put_part(Place place) {
  const std::size_t part = place->next_part++;
  ++place->asked;
  const std::uint64_t begin = part * place->part_bytes;
  const std::uint64_t end = std::min(begin + place->part_bytes, place->size_bytes);
  auto body = std::make_shared<Gather>(place->share->pieces, begin, end);
  asks_.ask({.method = "PUT",
             .name = place->share->object->name(),
             .query = {{"partNumber", cat(part + 1)}, {"uploadId", place->id}},
             .source = body.get()},
            [this, place, part, body](const Result<net::HttpResponse>& response) {
              part_done(place, part, response);
            });
}

void Writer::part_done(Place place, std::size_t part, const Result<net::HttpResponse>& response) {
  --place->asked;
  if (response.ok()) {
    place->tags[part] = response->header("etag");
    ++place->parts_done;
    if (place->tags[part].empty())
      fail(place, error(Code::corrupt, "the store took a part and gave it no tag"));
  } else {
    fail(place, response.status());
  }
  if (place->asked > 0) return;
  if (place->state == State::failed) {
    abort_upload(asks_.client(), counters_, log_, place->share->object->name(), place->id);
    return finish(place, place->why);
  }
  if (place->parts_done == place->tags.size()) complete(place);
}

void Writer::fail(Place place, const Status& why) {
  place->state = State::failed;
  if (place->why.ok()) place->why = why;
}

void Writer::complete(Place place) {
  place->state = State::completing;
  asks_.ask({.method = "POST",
             .name = place->share->object->name(),
             .query = {{"uploadId", place->id}},
             .headers = {kXml},
             .body = completion_of(place->tags)},
            [this, place](const Result<net::HttpResponse>& response) {
              const Status outcome =
                  response.ok() ? check_completed(*response) : why_not_completed(response.status());
              if (!outcome.ok())
                abort_upload(asks_.client(), counters_, log_, place->share->object->name(),
                             place->id);
              finish(place, outcome);
            });
}

// ---- The end

void Writer::finish(Place place, const Status& outcome) {
  if (outcome.ok()) {
    progress_.moved(place->size_bytes);
    counters_.moved(TransferOp::write).add(place->size_bytes);
  } else {
    for (const Piece& piece : place->share->pieces)
      progress_.failed({piece.segment, piece.extent, 0}, piece.length, outcome);
  }
  uploads_.erase(place);
}

void Writer::stop() {
  for (Upload& upload : std::exchange(uploads_, {})) {
    if (upload.abandoned) *upload.abandoned = true;
    if (!upload.id.empty())
      abort_upload(asks_.client(), counters_, log_, upload.share->object->name(), upload.id);
  }
}

}  // namespace towpath::backends::object
