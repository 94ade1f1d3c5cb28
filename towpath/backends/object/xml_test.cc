#include <gtest/gtest.h>

#include <towpath/backends/object/xml.h>

namespace towpath::backends::object {
namespace {

TEST(XmlTest, an_error_is_read) {
  const auto read = parse_xml(
      "<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>NoSuchKey</Code><Message>It is "
      "&lt;gone&gt; &amp; &#x21;&#33; &unknown; &</Message><Empty/><Deep><Code>other</Code></Deep>"
      "<Code>second</Code></Error>");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->name, "Error");
  EXPECT_EQ(read->field("Code"), "NoSuchKey");
  EXPECT_EQ(read->field("Message"), "It is <gone> & !! &unknown; &");
  EXPECT_EQ(read->field("Empty"), "");
  EXPECT_EQ(read->field("none"), "");
}

TEST(XmlTest, attributes_are_passed_over) {
  const auto read = parse_xml(R"(<R xmlns="http://x/"><UploadId a='1'>u+/=</UploadId></R>)");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->name, "R");
  EXPECT_EQ(read->field("UploadId"), "u+/=");
}

TEST(XmlTest, items_of_a_list_have_fields_of_their_own) {
  const auto read = parse_xml(
      "<R><K>outer</K><C><K>a&amp;b</K><O><K>deeper</K></O></C><D><K>no</K></D><C/>"
      "<C><K>c</K></C></R>",
      "C");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->field("K"), "outer");
  ASSERT_EQ(read->items.size(), 3U);
  EXPECT_EQ(field_of(read->items[0], "K"), "a&b");
  EXPECT_EQ(field_of(read->items[1], "K"), "");
  EXPECT_EQ(field_of(read->items[2], "K"), "c");
  EXPECT_TRUE(parse_xml("<R><C><K>a</K></C></R>")->items.empty());
}

TEST(XmlTest, what_is_none_is_refused) {
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "<a>";
  for (const std::string& bad :
       {std::string(), std::string("no"), std::string("<a>"), std::string("<a></b>"),
        std::string("<a><b></a></b>"), std::string("<!DOCTYPE x><a></a>"), std::string("<></>"),
        std::string("</a>"), std::string("<a"), deep, std::string(kMaxXmlBytes + 1, ' ')})
    EXPECT_EQ(parse_xml(bad).code(), Code::corrupt) << bad.substr(0, 40);
}

TEST(XmlTest, escaped_text_comes_back) {
  const std::string text = "\"a\" & <b> 'c'";
  const auto read = parse_xml("<R><T>" + escape_xml(text) + "</T></R>");
  EXPECT_EQ(read->field("T"), text);
}

}  // namespace
}  // namespace towpath::backends::object
