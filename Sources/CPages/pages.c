// Each file of Sources/API/Pages has an array and a function here.
#include "CPages.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

#define PAGE(file) \
    struct dwell_page dwell_page_##file(void) { return (struct dwell_page){file, sizeof file}; }

static const unsigned char openapi_json[] = {
#embed "../API/Pages/openapi.json"
};
PAGE(openapi_json)

static const unsigned char docs_html[] = {
#embed "../API/Pages/docs.html"
};
PAGE(docs_html)

static const unsigned char docs_css[] = {
#embed "../API/Pages/docs.css"
};
PAGE(docs_css)

static const unsigned char docs_js[] = {
#embed "../API/Pages/docs.js"
};
PAGE(docs_js)

static const unsigned char ops_html[] = {
#embed "../API/Pages/ops.html"
};
PAGE(ops_html)

static const unsigned char ops_css[] = {
#embed "../API/Pages/ops.css"
};
PAGE(ops_css)

static const unsigned char ops_js[] = {
#embed "../API/Pages/ops.js"
};
PAGE(ops_js)

static const unsigned char ops_draw_js[] = {
#embed "../API/Pages/ops-draw.js"
};
PAGE(ops_draw_js)

static const unsigned char ops_history_js[] = {
#embed "../API/Pages/ops-history.js"
};
PAGE(ops_history_js)

static const unsigned char ops_cases_js[] = {
#embed "../API/Pages/ops-cases.js"
};
PAGE(ops_cases_js)

static const unsigned char ops_start_js[] = {
#embed "../API/Pages/ops-start.js"
};
PAGE(ops_start_js)
