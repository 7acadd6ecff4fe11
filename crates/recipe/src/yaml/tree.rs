// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the events of the parser to the tree, within the limits.
//!
//! The builder keeps its own stack, so that no nesting can exhaust that of the
//! process. An alias shares the node of its anchor; what it would cost to walk
//! through it is counted before it is used.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Span, StructureStyle, Tag};

use super::expand::SectionBuilder;
use super::explain::{self, Stop, TOO_LARGE, stop};
use super::mistakes::Scene;
use super::scalar::value_of;
use super::{MAX_ANCHORS, MAX_DEPTH, MAX_NODES, MAX_SCALAR, MAX_TEXT};
use crate::node::{Node, Place, Value};
use crate::report::Report;

pub(super) fn build(report: &Report<'_>) -> Option<Rc<Node>> {
    let text = report.source.text;
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                let offset = offset_of(error.marker(), text).min(text.len());
                explain::explain(report, error.kind(), builder.scene(offset));
                return None;
            }
        };
        let place = Place { start: offset_of(&span.start, text), end: offset_of(&span.end, text) };
        if builder.take(report, event, place, &span).is_err() {
            return None;
        }
    }
    let end = Place { start: text.len(), end: text.len() };
    Some(builder.root.unwrap_or_else(|| Rc::new(Node { place: end, value: Value::Null })))
}

/// Returns the byte at which a marker of the parser stands.
fn offset_of(marker: &Marker, text: &str) -> usize {
    // A parser that reads a string knows the byte; the other way is there
    // because its interface does not promise it for errors.
    marker.byte_offset().unwrap_or_else(|| {
        text.char_indices().nth(marker.index()).map_or(text.len(), |(offset, _)| offset)
    })
}

/// What it costs to walk through a node with everything below it.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    nodes: usize,
    text: usize,
    /// Levels of lists and sections, the node itself included.
    height: usize,
}

impl Cost {
    fn add(&mut self, child: Cost) {
        self.nodes += child.nodes;
        self.text += child.text;
        self.height = self.height.max(child.height + 1);
    }
}

/// A list or a section that has begun and not ended.
#[derive(Debug)]
struct Open {
    start: usize,
    /// Whether it is written between brackets.
    in_brackets: bool,
    anchor: usize,
    cost: Cost,
    content: Content,
}

#[derive(Debug)]
enum Content {
    List(Vec<Rc<Node>>),
    Section(SectionBuilder),
}

#[derive(Debug, Default)]
struct Builder {
    root: Option<Rc<Node>>,
    open: Vec<Open>,
    /// The nodes that have an anchor; `None` for those that have not ended.
    anchors: HashMap<usize, Option<(Rc<Node>, Cost)>>,
    /// What was read so far, all together.
    total: Cost,
    /// The byte behind the last event.
    understood: usize,
}

impl Builder {
    /// Says where reading stands when the parser gives up at a byte.
    fn scene(&self, offset: usize) -> Scene {
        let innermost = self.open.last().filter(|open| open.in_brackets);
        Scene { offset, understood: self.understood, bracket: innermost.map(|open| open.start) }
    }

    fn take(
        &mut self,
        report: &Report<'_>,
        event: Event<'_>,
        place: Place,
        span: &Span,
    ) -> Result<(), Stop> {
        self.understood = self.understood.max(place.end);
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(stop(report, place, "a second document begins here", SECOND_DOCUMENT))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = is_str_tag(report, tag.as_deref(), place, span)?;
                self.reserve_anchor(report, anchor, place)?;
                let quoted = is_text || style != ScalarStyle::Plain;
                self.scalar(report, &text, quoted, anchor, place)
            }
            Event::SequenceStart(style, anchor, tag) => {
                refuse_tag(report, tag.as_deref(), place, span)?;
                self.begin(report, Content::List(Vec::new()), style, anchor, place)
            }
            Event::MappingStart(style, anchor, tag) => {
                refuse_tag(report, tag.as_deref(), place, span)?;
                let content = Content::Section(SectionBuilder::default());
                self.begin(report, content, style, anchor, place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(report, place),
            Event::Alias(anchor) => self.alias(report, anchor, place),
            // Stream and document events; comments and anchors are not requested.
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        report: &Report<'_>,
        text: &str,
        quoted: bool,
        anchor: usize,
        place: Place,
    ) -> Result<(), Stop> {
        if text.len() > MAX_SCALAR {
            let message = format!("this text has {} bytes; the limit is {MAX_SCALAR}", text.len());
            return Err(stop(report, place, &message, "put long texts into a file of their own"));
        }
        let value = value_of(text, quoted);
        let cost = Cost { nodes: 1, text: text.len(), height: 0 };
        self.charge(report, cost, place)?;
        self.complete(report, Rc::new(Node { place, value }), cost, anchor, place)
    }

    fn begin(
        &mut self,
        report: &Report<'_>,
        content: Content,
        style: StructureStyle,
        anchor: usize,
        place: Place,
    ) -> Result<(), Stop> {
        self.reserve_anchor(report, anchor, place)?;
        if let Some(Open { content: Content::Section(section), .. }) = self.open.last()
            && section.expects_key()
        {
            return Err(explain::no_word_as_key(report, place));
        }
        self.check_depth(report, 1, place)?;
        let cost = Cost { nodes: 1, text: 0, height: 1 };
        self.charge(report, cost, place)?;
        let in_brackets = style == StructureStyle::Flow;
        self.open.push(Open { start: place.start, in_brackets, anchor, cost, content });
        Ok(())
    }

    fn end(&mut self, report: &Report<'_>, place: Place) -> Result<(), Stop> {
        // The parser ends what it began; an end of nothing would be its mistake.
        let Some(Open { start, anchor, cost, content, .. }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Section(section) => Value::Section(section.finish(report)),
        };
        let place = Place { start, end: place.end.max(start) };
        self.complete(report, Rc::new(Node { place, value }), cost, anchor, place)
    }

    fn alias(&mut self, report: &Report<'_>, anchor: usize, place: Place) -> Result<(), Stop> {
        let Some(Some((node, cost))) = self.anchors.get(&anchor) else {
            let message = "this alias is inside the value that it stands for";
            return Err(stop(report, place, message, "write the value out instead"));
        };
        let (node, cost) = (Rc::clone(node), *cost);
        self.check_depth(report, cost.height, place)?;
        self.charge(report, cost, place)?;
        self.complete(report, node, cost, 0, place)
    }

    /// Hands a finished node to what it belongs to.
    fn complete(
        &mut self,
        report: &Report<'_>,
        node: Rc<Node>,
        cost: Cost,
        anchor: usize,
        place: Place,
    ) -> Result<(), Stop> {
        if anchor != 0 {
            self.anchors.insert(anchor, Some((Rc::clone(&node), cost)));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.cost.add(cost);
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Section(section) => section.take(report, node, place)?,
        }
        Ok(())
    }

    fn reserve_anchor(
        &mut self,
        report: &Report<'_>,
        anchor: usize,
        place: Place,
    ) -> Result<(), Stop> {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        if self.anchors.len() > MAX_ANCHORS {
            let message = format!("the file has more than {MAX_ANCHORS} anchors");
            return Err(stop(report, place, &message, TOO_LARGE));
        }
        Ok(())
    }

    fn check_depth(&self, report: &Report<'_>, height: usize, place: Place) -> Result<(), Stop> {
        if self.open.len() + height > MAX_DEPTH {
            return Err(explain::too_deep(report, place));
        }
        Ok(())
    }

    fn charge(&mut self, report: &Report<'_>, cost: Cost, place: Place) -> Result<(), Stop> {
        self.total.nodes += cost.nodes;
        self.total.text += cost.text;
        let message = if self.total.nodes > MAX_NODES {
            format!("the file has more than {MAX_NODES} values")
        } else if self.total.text > MAX_TEXT {
            format!("the texts of the file together have more than {MAX_TEXT} bytes")
        } else {
            return Ok(());
        };
        Err(stop(report, place, &message, TOO_LARGE))
    }
}

const SECOND_DOCUMENT: &str = "a file holds one document: remove the line `---`";

/// Refuses every tag but `!!str`, which says what quotes say.
fn is_str_tag(
    report: &Report<'_>,
    tag: Option<&Tag>,
    place: Place,
    span: &Span,
) -> Result<bool, Stop> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema_tag("str") => Ok(true),
        _ => refuse_tag(report, tag, place, span).map(|()| false),
    }
}

fn refuse_tag(
    report: &Report<'_>,
    tag: Option<&Tag>,
    place: Place,
    span: &Span,
) -> Result<(), Stop> {
    if tag.is_none() {
        return Ok(());
    }
    let text = report.source.text;
    let place = match span.tag_span().and_then(|tag| tag.byte_range()) {
        Some(bytes) if text.get(bytes.clone()).is_some() => {
            Place { start: bytes.start, end: bytes.end }
        }
        _ => place,
    };
    let message = "a word that begins with `!` is a tag, and tags mean nothing in a recipe";
    Err(stop(report, place, message, "put text that begins with `!` in quotes"))
}
