// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image is of the format that the request says, whether it is mounted already or not.

use cabane_mount::ImageFormat;

use crate::arena::in_arena;
use crate::limits::Up;
use crate::start::assert_refused;

#[test]
fn an_image_that_is_mounted_is_refused_in_another_format_as_one_that_is_not() {
    in_arena(|arena| {
        arena.keep_warm();
        for (format, other) in [
            (ImageFormat::Squashfs, ImageFormat::Erofs),
            (ImageFormat::Erofs, ImageFormat::Squashfs),
        ] {
            let image = arena.image("image", format);
            let start = arena.start().image(&image, arena.first());
            let declared = start.clone().declared(other);
            let fresh = declared.finish();
            let up = Up::with(&start, "echo up");
            let held = declared.clone().user(arena.another_user()).finish();
            up.end();
            assert_refused(&fresh, "error: ");
            assert_refused(&held, "error: ");
        }
    });
}

#[test]
fn an_image_that_stays_mounted_unused_is_refused_in_another_format() {
    in_arena(|arena| {
        arena.keep_warm();
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        start.finish().success();
        let declared = start.declared(ImageFormat::Erofs).finish();
        assert_refused(&declared, "error: ");
    });
}
