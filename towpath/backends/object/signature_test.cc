// Against the examples that Amazon publishes: "Signature Calculations for the Authorization Header:
// Transferring Payload in a Single Chunk" (Amazon S3 API Reference), and the test suite of
// Signature Version 4 (get-vanilla and its kin).
#include <gtest/gtest.h>

#include <towpath/backends/object/signature.h>
#include <towpath/core/format.h>
#include <towpath/net/digest.h>

namespace towpath::backends::object {
namespace {

const char* const kEmptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const char* const kS3Host = "examplebucket.s3.amazonaws.com";

Credentials s3_example() {
  return {.access_key = "AKIAIOSFODNN7EXAMPLE",
          .secret_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")};
}
Scope s3_scope() { return {.time = "20130524T000000Z", .region = "us-east-1"}; }

std::string signature_of(const SignedParts& parts, const Scope& scope, const Credentials& who) {
  const std::string text = authorization(parts, scope, who);
  return text.substr(text.rfind('=') + 1);
}

SignedParts s3_request(std::string method, std::string path, std::vector<NameValue> query = {}) {
  return {.method = std::move(method),
          .path = std::move(path),
          .query = std::move(query),
          .headers = {{"host", kS3Host},
                      {"x-amz-content-sha256", kEmptyHash},
                      {"x-amz-date", "20130524T000000Z"}},
          .payload_hash = kEmptyHash};
}

TEST(SignatureTest, get_with_a_range_is_that_of_the_s3_reference) {
  SignedParts parts = s3_request("GET", "/test.txt");
  parts.headers.emplace_back("range", "bytes=0-9");
  const std::string canonical = canonical_request(parts);
  EXPECT_EQ(canonical, cat("GET\n/test.txt\n\nhost:", kS3Host,
                           "\nrange:bytes=0-9\nx-amz-content-sha256:", kEmptyHash,
                           "\nx-amz-date:20130524T000000Z\n\n"
                           "host;range;x-amz-content-sha256;x-amz-date\n",
                           kEmptyHash));
  EXPECT_EQ(string_to_sign(s3_scope(), canonical),
            "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"
            "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
  EXPECT_EQ(authorization(parts, s3_scope(), s3_example()),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SignatureTest, put_is_that_of_the_s3_reference) {
  const std::string hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
  EXPECT_EQ(net::to_hex(net::sha256(as_bytes("Welcome to Amazon S3."))), hash);
  const SignedParts parts{.method = "PUT",
                          .path = "/" + encode_uri("test$file.text", Slashes::kept),
                          .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                      {"host", kS3Host},
                                      {"x-amz-content-sha256", hash},
                                      {"x-amz-date", "20130524T000000Z"},
                                      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                          .payload_hash = hash};
  EXPECT_EQ(signature_of(parts, s3_scope(), s3_example()),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SignatureTest, queries_are_those_of_the_s3_reference) {
  EXPECT_EQ(signature_of(s3_request("GET", "/", {{"lifecycle", ""}}), s3_scope(), s3_example()),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature_of(s3_request("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}), s3_scope(),
                         s3_example()),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

struct Vector {
  const char* name;
  std::string method;
  std::string path;
  std::vector<NameValue> query;
  std::vector<NameValue> headers;
  const char* signature;
};

TEST(SignatureTest, vectors_of_the_test_suite) {
  const Scope scope{.time = "20150830T123600Z", .region = "us-east-1", .service = "service"};
  const Credentials who{.access_key = "AKIDEXAMPLE",
                        .secret_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")};
  const std::vector<Vector> vectors = {
      {"get-vanilla",
       "GET",
       "/",
       {},
       {},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       {{"Param2", "value2"}, {"Param1", "value1"}},
       {},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-utf8",
       "GET",
       "/%E1%88%B4",
       {},
       {},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"post-vanilla",
       "POST",
       "/",
       {},
       {},
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"get-header-value-trim",
       "GET",
       "/",
       {},
       {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
  };
  for (const Vector& vector : vectors) {
    SignedParts parts{.method = vector.method,
                      .path = vector.path,
                      .query = vector.query,
                      .headers = vector.headers,
                      .payload_hash = kEmptyHash};
    parts.headers.emplace_back("x-amz-date", scope.time);
    parts.headers.emplace_back("host", "example.amazonaws.com");
    EXPECT_EQ(signature_of(parts, scope, who), vector.signature) << vector.name;
  }
}

TEST(SignatureTest, everything_unusual_is_encoded) {
  EXPECT_EQ(encode_uri("a b/c+d~e%f\xc3\xbc", Slashes::kept), "a%20b/c%2Bd~e%25f%C3%BC");
  EXPECT_EQ(encode_uri("a/b", Slashes::encoded), "a%2Fb");
  EXPECT_EQ(canonical_query({{"b", "="}, {"a", "&"}, {"a", "!"}}), "a=%21&a=%26&b=%3D");
}

TEST(SignatureTest, moments_are_reported_as_amazon_wants_them) {
  EXPECT_EQ(amazon_time(std::chrono::seconds(1369353600)), "20130524T000000Z");
  EXPECT_EQ(amazon_time(std::chrono::seconds(1709210645)), "20240229T124405Z");
}

TEST(SignatureTest, secrets_describe_themselves_by_stars) {
  EXPECT_EQ(to_string(Secret("hush")), "***");
  EXPECT_EQ(to_string(Secret()), "");
}

}  // namespace
}  // namespace towpath::backends::object
