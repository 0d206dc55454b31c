#include "io/deck/raw.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "parallel/error.hpp"

namespace tessera::deck_detail {
namespace {

struct Weight {
  std::size_t nodes = 0;
  std::size_t bytes = 0;
};

void weigh(const RawNode& node, Weight& weight) {
  weight.nodes += 1;
  weight.bytes += node.text.size();
  for (const RawNode& item : node.items) weigh(item, weight);
  for (const RawMember& member : node.members) {
    weight.bytes += member.name.size();
    weigh(member.value, weight);
  }
}

/// Builds a RawNode from the parser's events. The stack holds the lists and maps that are still open.
class Builder final : public YAML::EventHandler {
 public:
  Builder(int source, const std::string& where) : source_(source), where_(where) {}

  RawNode take() {
    if (bad_key_) refuse(*bad_key_, "a key must be a name: found nothing, a list or a map");
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override { place(node_at(at), anchor); }

  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RawNode node = node_at(at);
    check_tag(tag, node.mark);
    node.kind = RawNode::Kind::scalar;
    node.quoted = tag == "!";
    node.text = value;
    place(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark_of(at), "an alias stands inside what it stands for");
    Weight weight;
    weigh(found->second, weight);
    grow(weight, mark_of(at));
    RawNode node = found->second;
    set_marks(node, mark_of(at));
    attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(RawNode::Kind::list, at, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(RawNode::Kind::map, at, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    RawNode node;
    YAML::anchor_t anchor;
    std::optional<RawMember> pending;  ///< a key whose value is still to come
  };

  template <typename... Args>
  [[noreturn]] void refuse(const Mark& mark, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::usage, located(where_, mark), format, std::forward<Args>(args)...);
  }

  Mark mark_of(const YAML::Mark& at) const { return {source_, at.line + 1, at.column + 1}; }

  RawNode node_at(const YAML::Mark& at) const {
    RawNode node;
    node.mark = mark_of(at);
    return node;
  }

  void check_tag(const std::string& tag, const Mark& mark) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, "decks have no tags: found {}", quoted(tag));
  }

  void grow(const Weight& weight, const Mark& mark) {
    total_.nodes += weight.nodes;
    total_.bytes += weight.bytes;
    if (total_.nodes > RawLimits::nodes) refuse(mark, "the deck has more than {} entries", RawLimits::nodes);
    if (total_.bytes > RawLimits::bytes) {
      refuse(mark, "the deck's aliases stand for more than {} bytes", RawLimits::bytes);
    }
  }

  void open(RawNode::Kind kind, const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor) {
    RawNode node = node_at(at);
    check_tag(tag, node.mark);
    node.kind = kind;
    if (stack_.size() >= RawLimits::depth) {
      refuse(node.mark, "the deck is nested more than {} levels deep", RawLimits::depth);
    }
    grow({1, 0}, node.mark);
    stack_.push_back({std::move(node), anchor, std::nullopt});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    refuse_duplicates(done.node);
    remember(done.node, done.anchor);
    attach(std::move(done.node));
  }

  void place(RawNode node, YAML::anchor_t anchor) {
    grow({1, node.text.size()}, node.mark);
    remember(node, anchor);
    attach(std::move(node));
  }

  void remember(const RawNode& node, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    if (anchors_.size() >= RawLimits::anchors) {
      refuse(node.mark, "the deck has more than {} anchors", RawLimits::anchors);
    }
    Weight weight;
    weigh(node, weight);
    grow(weight, node.mark);
    anchors_[anchor] = node;
  }

  void attach(RawNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == RawNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.pending) {
      // Told only at the end: the parser also sees a key in a bracket that is never closed, and says so
      // later.
      if (node.kind != RawNode::Kind::scalar && !bad_key_) bad_key_ = node.mark;
      parent.pending = RawMember{std::move(node.text), node.mark, {}};
    } else {
      if (node.is_null())
        node.mark = parent.pending->mark;  // the parser places an empty value after its line
      parent.pending->value = std::move(node);
      parent.node.members.push_back(std::move(*parent.pending));
      parent.pending.reset();
    }
  }

  void refuse_duplicates(const RawNode& node) const {
    if (bad_key_) return;
    std::vector<const RawMember*> sorted;
    for (const RawMember& member : node.members) sorted.push_back(&member);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->name < b->name; });
    const RawMember* second = nullptr;
    const RawMember* first = nullptr;
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1]->name != sorted[i]->name) continue;
      const Mark& at = sorted[i]->mark;
      const bool earlier =
          !second || std::pair(at.line, at.column) < std::pair(second->mark.line, second->mark.column);
      if (earlier) first = sorted[i - 1], second = sorted[i];
    }
    if (!second) return;
    refuse(second->mark, "duplicate key {}: it was given before at line {}", quoted(second->name),
           first->mark.line);
  }

  int source_;
  const std::string& where_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, RawNode> anchors_;
  Weight total_;
  std::optional<Mark> bad_key_;
  RawNode root_;
};

}  // namespace

RawNode* RawNode::find(std::string_view name) {
  for (RawMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

const RawNode* RawNode::find(std::string_view name) const {
  const RawMember* found = member(name);
  return found ? &found->value : nullptr;
}

const RawMember* RawNode::member(std::string_view name) const {
  for (const RawMember& candidate : members) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

std::string located(const std::string& where, const Mark& mark) {
  return mark.line > 0 ? fmt::format("{}:{}:{}", where, mark.line, mark.column) : where;
}

void set_marks(RawNode& node, const Mark& mark) {
  node.mark = mark;
  for (RawNode& item : node.items) set_marks(item, mark);
  for (RawMember& member : node.members) {
    member.mark = mark;
    set_marks(member.value, mark);
  }
}

RawNode parse_yaml(const std::string& text, int source, const std::string& where) {
  if (text.size() > RawLimits::bytes) {
    fail(ExitCode::usage, where, "the text is too long: found {} bytes, expected at most {}", text.size(),
         RawLimits::bytes);
  }
  if (const auto zero = text.find('\0'); zero != std::string::npos) {
    fail(ExitCode::usage, where, "not a text file: byte {} is zero", zero);
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Builder builder(source, where);
    if (!parser.HandleNextDocument(builder)) return {};
    if (parser) {
      Builder rest(source, where);
      if (parser.HandleNextDocument(rest))
        fail(ExitCode::usage, where, "found a second document, expected one");
    }
    return builder.take();
  } catch (const YAML::Exception& error) {
    const Mark mark{source, error.mark.line + 1, error.mark.column + 1};
    fail(ExitCode::usage, located(where, mark), "not valid YAML: {}", error.msg);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(ExitCode::usage, where, "not valid YAML: {}", error.what());
  }
}

}  // namespace tessera::deck_detail
