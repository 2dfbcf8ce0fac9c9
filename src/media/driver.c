/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers of media that stand alone: file, mem and null. spec.c parses their specs.
 *
 * Control thread. All three open at once; opening a file may block. The drivers call the
 * constructors from this file, not from the constructors' own files, so that the simulator can
 * replace files by its disks.
 */
#include "media/driver.h"

static int file_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	return media_file_open(opening->spec, ret_media, ret_error);
}

static int mem_open(struct media_opening *opening, struct media **ret_media,
		    struct media_error *ret_error)
{
	return media_mem_open(opening->spec, ret_media, ret_error);
}

static int null_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	return media_null_open(opening->spec, ret_media, ret_error);
}

const struct media_driver media_file_driver = {
	.name = "file",
	.form = "file:PATH",
	.kind = MEDIA_SPEC_FILE,
	.options = "size=, block=, readonly",
	.open = file_open,
};

const struct media_driver media_mem_driver = {
	.name = "mem",
	.form = "mem:SIZE",
	.kind = MEDIA_SPEC_MEM,
	.options = "block=, huge",
	.open = mem_open,
};

const struct media_driver media_null_driver = {
	.name = "null",
	.form = "null:SIZE",
	.kind = MEDIA_SPEC_NULL,
	.options = "block=",
	.open = null_open,
};
