/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits parts of the document of desired state for the REST API. The document comes from
 * config_to_edit_json, so every element has its name and every list exists. The edited document is
 * checked as a whole afterwards (config_load_json).
 *
 * Control reactor only.
 */
#include "api/api_call.h"
#include "base/text.h"
#include "config/fields.h"
#include "media/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int document_no_subsystem(const char *nqn, struct config_errors *errors)
{
	config_errors_add(
		errors, "there is no subsystem %.223s; `weft ctl subsystem list` lists them", nqn);
	return -ENOENT;
}

int document_no_ns(const char *nqn, uint32_t nsid, struct config_errors *errors)
{
	config_errors_add(errors, "the subsystem %.223s has no namespace %u", nqn, nsid);
	return -ENOENT;
}

int document_no_port(uint32_t id, struct config_errors *errors)
{
	config_errors_add(errors, "there is no port %u; `weft ctl port list` lists them", id);
	return -ENOENT;
}

int document_merge(json_t *object, const json_t *patch)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)patch, key, value)
	{
		json_t *old = json_object_get(object, key);

		if (json_is_null(value)) {
			json_object_del(object, key);
		} else if (json_is_object(value) && json_is_object(old)) {
			if (document_merge(old, value) < 0)
				return -ENOMEM;
		} else if (json_object_set_new(object, key, json_deep_copy(value)) < 0) {
			return -ENOMEM;
		}
	}
	return 0;
}

int document_keeps(const struct config_object *object, const json_t *element, const json_t *patch,
		   struct config_errors *errors)
{
	const char *key = config_object_name(object)->key;
	const json_t *value = json_object_get(patch, key);

	if (!value || json_equal(json_object_get(element, key), value))
		return 0;
	config_errors_add(errors, "%s: cannot be changed; remove and add again with another value",
			  key);
	return -EINVAL;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static int size_parse(const json_t *size, uint64_t *ret_bytes, struct config_errors *errors)
{
	*ret_bytes = 0;
	if (json_is_integer(size) && json_integer_value(size) > 0)
		*ret_bytes = (uint64_t)json_integer_value(size);
	else if (!json_is_string(size) || text_parse_size(json_string_value(size), ret_bytes) < 0)
		*ret_bytes = 0;
	if (*ret_bytes > 0 && *ret_bytes <= INT64_MAX - MEDIA_BLOCK_DEFAULT)
		return 0;
	config_errors_add(errors, "size: must be a number of bytes, or a string such as \"512M\", "
				  "\"10G\" or \"20GB\"");
	return -EINVAL;
}

/* The size for the spec: as given, or, if that is not a whole number of blocks, the rounded
 * bytes. */
static void spec_size_text(const json_t *size, uint64_t given, uint64_t bytes, char *text,
			   size_t text_bytes)
{
	if (given == bytes && json_is_string(size) && strlen(json_string_value(size)) < text_bytes)
		text_copy(text, text_bytes, json_string_value(size));
	else
		snprintf(text, text_bytes, "%llu", (unsigned long long)bytes);
}

/* Finds the begin and end of the size in "file:PATH,a,size=1G,b" and "mem:1G,a". */
static void size_find(const struct media_spec *spec, size_t *ret_begin, size_t *ret_end)
{
	const char *text = spec->text;
	const char *at = strchr(text, ':') + 1;

	if (spec->kind == MEDIA_SPEC_FILE) {
		at = strstr(text, ",size=");
		/* The path ends at the first comma, so this is an option. */
		at = at ? at + strlen(",size=") : text + strlen(text);
	}
	*ret_begin = (size_t)(at - text);
	*ret_end = *ret_begin + strcspn(at, ",");
}

/* The size of a block device; 0: not a block device, or unknown. */
static uint64_t device_bytes(const char *path)
{
	uint64_t bytes = 0;
	struct stat st;
	int fd;

	if (!path || stat(path, &st) < 0 || !S_ISBLK(st.st_mode))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes) < 0)
		bytes = 0;
	if (fd >= 0)
		close(fd);
	return bytes;
}

/* A block device grows by itself. A request for its present size makes the target look again. */
static int device_resize(const char *spec, uint64_t device, uint64_t wanted, char **ret_spec,
			 struct config_errors *errors)
{
	if (wanted == device) {
		*ret_spec = strdup(spec);
		return *ret_spec ? 0 : -ENOMEM;
	}
	config_errors_add(errors,
			  "size: %s is a block device of %llu bytes: enlarge the device first, "
			  "then give its new size",
			  spec, (unsigned long long)device);
	return -EINVAL;
}

/* Writes another size into the innermost spec. */
static int spec_resize(const char *spec, const struct media_spec *inner, const char *size,
		       char **ret_spec)
{
	size_t prefix = strlen(spec) - strlen(inner->text);
	size_t begin, end;

	size_find(inner, &begin, &end);
	return asprintf(ret_spec, "%.*s%s%s%s", (int)(prefix + begin), spec,
			inner->text[begin] == 0 && inner->kind == MEDIA_SPEC_FILE ? ",size=" : "",
			size, spec + prefix + end) < 0
		       ? -ENOMEM
		       : 0;
}

static uint64_t block_of(const struct media_spec *inner)
{
	return inner->block_bytes ? inner->block_bytes : MEDIA_BLOCK_DEFAULT;
}

int document_media_resize(const char *spec, const json_t *size, char **ret_spec,
			  uint64_t *ret_rounded, struct config_errors *errors)
{
	struct media_error error;
	struct media_spec parsed;
	const struct media_spec *inner = &parsed;
	uint64_t device, given, bytes;
	char text[32];
	int res = size_parse(size, &given, errors);

	*ret_rounded = 0;
	if (res < 0)
		return res;
	res = media_spec_parse(spec, &parsed, &error);
	if (res < 0) {
		config_errors_add(errors, "media: %s", error.text);
		return res;
	}
	inner = media_spec_store(inner);
	device = device_bytes(inner->path);
	bytes = (given + block_of(inner) - 1) / block_of(inner) * block_of(inner);
	if (device > 0) {
		res = device_resize(spec, device, given, ret_spec, errors);
	} else if (bytes == inner->size_bytes) {
		/* The spec has this size already, maybe written in another way. */
		*ret_spec = strdup(spec);
		res = *ret_spec ? 0 : -ENOMEM;
	} else {
		spec_size_text(size, given, bytes, text, sizeof(text));
		res = spec_resize(spec, inner, text, ret_spec);
	}
	if (device == 0 && bytes != given)
		*ret_rounded = bytes;
	if (res == -ENOMEM)
		config_errors_add(errors, "out of memory");
	media_spec_free(&parsed);
	return res;
}

int document_media_check_size(const char *spec, struct config_errors *errors)
{
	const struct media_spec *inner;
	struct media_spec parsed;
	uint64_t left;
	int res = media_spec_parse(spec, &parsed, NULL);

	/* Other errors of the spec are reported when the document is checked. */
	if (res < 0)
		return res == -ENOMEM ? res : 0;
	inner = media_spec_store(&parsed);
	left = inner->size_bytes % block_of(inner);
	if (left > 0)
		config_errors_add(
			errors,
			"media: %llu bytes are not a multiple of the block size %llu; use "
			"%llu",
			(unsigned long long)inner->size_bytes, (unsigned long long)block_of(inner),
			(unsigned long long)(inner->size_bytes - left + block_of(inner)));
	media_spec_free(&parsed);
	return left > 0 ? -EINVAL : 0;
}
