/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The string that names a backing store, parsed: "KIND:WHAT[,OPTION...]".
 *
 * Control thread. Parsing opens nothing, so that a configuration can be checked without touching
 * its stores. Also declares the constructors of the media that stand alone.
 */
#ifndef WEFT_MEDIA_SPEC_H
#define WEFT_MEDIA_SPEC_H

#include "media/media.h"

#define MEDIA_BLOCK_DEFAULT 4096u
#define MEDIA_SPEC_NEST_MAX 4 /* levels of media inside each other */

enum media_spec_kind {
	MEDIA_SPEC_FILE,
	MEDIA_SPEC_MEM,
	MEDIA_SPEC_NULL,
	MEDIA_SPEC_VOLUME, /* made of other media */
};

struct media_driver;

struct media_spec {
	const struct media_driver *driver; /* media/driver.h */
	enum media_spec_kind kind;
	char *text;           /* the whole spec */
	char *path;           /* file only */
	uint64_t size_bytes;  /* 0: not given */
	uint32_t block_bytes; /* 0: not given, else 512 or 4096 */
	bool is_read_only;
	bool wants_huge_pages;
	void *own;                   /* for the driver; one allocation, freed with the spec */
	struct media_spec *children; /* the media that this medium is made of */
	unsigned child_count;
	bool is_wrapper; /* from the driver: one child, whose store is the store of this medium */
	/* Not parsed, copied from struct media_terms: other processes serve the store too, and this
	 * process is `member` of them. */
	bool is_shared;
	unsigned member;
	const struct media_record *known; /* of struct media_terms; also the next three */
	bool is_recreated;
	bool must_not_wait;
	char *told;
};

/* On 0 the caller frees ret_spec with media_spec_free; on -errno there is nothing to free. */
int media_spec_parse(const char *text, struct media_spec *ret_spec, struct media_error *ret_error);
void media_spec_free(struct media_spec *spec);

/* The spec of the innermost medium under wrappers. */
static inline struct media_spec *media_spec_store(const struct media_spec *spec)
{
	while (spec->is_wrapper)
		spec = &spec->children[0];
	return (struct media_spec *)spec;
}

/* Whether a file is below the store, which is made of other media. */
bool media_spec_is_over_files(const struct media_spec *spec);

/* Fills ret_error, if not NULL, and returns `code`: for use as "return media_fail(...)". */
int media_fail(struct media_error *ret_error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Of a lost store that only a recreation opens; the argument is its path. */
#define MEDIA_GIVEN_UP_TEXT                                                                        \
	"%.110s may be empty, or hold the data of another namespace: its recreation did not "      \
	"finish; recreate it again"

/* One constructor per kind. Each sets everything in struct media except spec and children. */
int media_file_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error);
int media_mem_open(const struct media_spec *spec, struct media **ret_media,
		   struct media_error *ret_error);
int media_null_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error);

#endif
