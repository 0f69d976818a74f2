// Renders /openapi.json (OpenAPI 3.1). Supports only the constructs that this document contains. The descriptions in
// the document are inserted as text, never as HTML.
"use strict";

const methods = ["get", "put", "post", "patch", "delete"];

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    for (const child of children) if (child !== null) made.append(child);
    return made;
}

// Returns an element with the text. Text between two backquotes becomes a code element.
function prose(name, text, attributes = {}) {
    const parts = text.split("`");
    return element(name, attributes, ...parts.map((part, index) => (index % 2 === 1 ? element("code", {}, part) : part)));
}

class Description {
    constructor(json) { this.json = json; }

    // If `value` is a $ref, returns the referenced value, and the last part of the $ref as `name`. Any other value is
    // returned itself, with null as `name`.
    resolve(value) {
        let name = null;
        for (let hops = 0; value && value.$ref && hops < 8; hops += 1) {
            name = value.$ref.split("/").pop();
            value = value.$ref.slice(2).split("/").reduce((at, part) => at && at[part.replace(/~1/g, "/").replace(/~0/g, "~")], this.json);
        }
        return { value: value || {}, name };
    }

    operations() {
        const found = [];
        for (const [path, item] of Object.entries(this.json.paths)) {
            for (const method of methods) {
                if (item[method]) found.push({ path, method, operation: item[method], id: item[method].operationId });
            }
        }
        return found;
    }

    typeOf(schema) {
        const { value, name } = this.resolve(schema);
        if (name) return name;
        if (value.const !== undefined) return JSON.stringify(value.const);
        if (value.anyOf || value.oneOf) return (value.anyOf || value.oneOf).map((one) => this.typeOf(one)).join(" or ");
        if (value.allOf) return value.allOf.map((one) => this.typeOf(one)).join(" and ");
        const type = Array.isArray(value.type) ? value.type.join(" or ") : value.type || "any";
        if (type === "array" && value.items) return `array of ${this.typeOf(value.items)}`;
        return value.format ? `${type} (${value.format})` : type;
    }

    rules(schema) {
        const { value } = this.resolve(schema);
        const rules = [];
        if (value.enum) rules.push(`one of ${value.enum.filter((one) => one !== null).join(", ")}`);
        if (value.exclusiveMinimum !== undefined) rules.push(`> ${value.exclusiveMinimum}`);
        if (value.minimum !== undefined) rules.push(`≥ ${value.minimum}`);
        if (value.maximum !== undefined) rules.push(`≤ ${value.maximum}`);
        if (value.minLength || value.maxLength) rules.push(`${value.minLength || 0} to ${value.maxLength || "any number of"} characters`);
        if (value.minItems || value.maxItems) rules.push(`${value.minItems || 0} to ${value.maxItems || "any number of"} items`);
        if (value.default !== undefined) rules.push(`default ${JSON.stringify(value.default)}`);
        return rules.join("; ");
    }
}

function table(headings, rows) {
    const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => (typeof cell === "string" ? prose("td", cell) : element("td", {}, cell)))));
    return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function schemaView(description, schema, depth = 0) {
    const { value, name } = description.resolve(schema);
    const alternatives = value.oneOf || value.anyOf || value.allOf;
    if (alternatives && !value.properties && depth < 4) {
        return element("div", {}, ...alternatives.map((one) => schemaView(description, one, depth + 1)));
    }
    if (value.type === "array" && value.items && depth < 4) {
        return element("div", {}, element("p", { class: "quiet" }, description.typeOf(schema)), schemaView(description, value.items, depth + 1));
    }
    if (!value.properties) {
        const text = [description.typeOf(schema), description.rules(schema), value.description].filter(Boolean).join(". ");
        return element("p", { class: "quiet" }, text);
    }
    const required = new Set(value.required || []);
    const rows = Object.entries(value.properties).map(([member, property]) => {
        const about = [description.rules(property), description.resolve(property).value.description].filter(Boolean).join(". ");
        return [element("code", {}, member), description.typeOf(property) + (required.has(member) ? "" : ", optional"), about];
    });
    const rules = (value.allOf || []).map((rule) => rule.description).filter(Boolean);
    return element("div", {},
        name ? element("p", { class: "quiet" }, value.description ? `${name}: ${value.description}` : name) : null,
        ...rules.map((rule) => prose("p", rule)),
        table(["Member", "Type", "Rule"], rows));
}

function parametersView(description, operation) {
    const parameters = (operation.parameters || []).map((parameter) => description.resolve(parameter).value);
    if (parameters.length === 0) return [];
    const rows = parameters.map((one) => [
        element("code", {}, one.name), `${one.in}${one.required ? "" : ", optional"}`,
        [description.typeOf(one.schema), description.rules(one.schema), one.description].filter(Boolean).join(". "),
    ]);
    return [element("h4", {}, "Parameters"), table(["Name", "Where", "Rule"], rows)];
}

function bodyView(description, operation) {
    if (!operation.requestBody) return [];
    const shown = [element("h4", {}, "Body")];
    for (const [mediaType, media] of Object.entries(operation.requestBody.content)) {
        shown.push(element("p", { class: "quiet" }, mediaType), schemaView(description, media.schema));
        for (const example of Object.values(media.examples || {})) {
            shown.push(element("pre", { tabindex: "0", role: "group", "aria-label": `Example of ${mediaType}` }, element("code", {}, JSON.stringify(example.value, null, 2))));
        }
    }
    return shown;
}

function responseView(description, status, response) {
    const { value } = description.resolve(response);
    const fields = Object.keys(value.headers || {}).join(", ");
    const line = element("summary", {},
        element("span", { class: `status ${Number(status) < 400 ? "good" : "bad"}` }, status), ` ${value.description}`);
    const details = element("details", {}, line);
    if (fields) details.append(element("p", { class: "quiet" }, `Fields: ${fields}`));
    for (const [mediaType, media] of Object.entries(value.content || {})) {
        details.append(element("p", { class: "quiet" }, mediaType), schemaView(description, media.schema || {}));
    }
    return details;
}

function operationView(description, { path, method, operation, id }) {
    const needsToken = (operation.security || description.json.security || []).length > 0;
    return element("section", { class: "operation", id, "aria-labelledby": `${id}-name` },
        element("h3", { id: `${id}-name` }, element("span", { class: "method" }, method.toUpperCase()), element("span", { class: "path" }, path)),
        element("p", { class: "summary" }, operation.summary || ""),
        operation.description ? prose("p", operation.description) : null,
        element("p", { class: "quiet" }, needsToken ? "Requires a bearer token." : "Requires no token."),
        ...parametersView(description, operation),
        ...bodyView(description, operation),
        element("h4", {}, "Responses"),
        ...Object.entries(operation.responses).map(([status, response]) => responseView(description, status, response)));
}

function draw(json) {
    const description = new Description(json);
    document.getElementById("title").textContent = json.info.title;
    document.getElementById("version").textContent = `API ${json.info.version}, OpenAPI ${json.openapi}`;
    const content = document.getElementById("content");
    const index = document.getElementById("index");
    content.replaceChildren(...json.info.description.split("\n\n").map((text) => prose("p", text)));
    const operations = description.operations();
    for (const { name } of json.tags) {
        const tagged = operations.filter(({ operation }) => operation.tags.includes(name));
        if (tagged.length === 0) continue;
        const views = tagged.map((operation) => operationView(description, operation));
        content.append(element("h2", {}, name), ...views);
        const links = tagged.map(({ path, method, id }) => element("li", { "data-text": `${method} ${path} ${id}`.toLowerCase() },
            element("a", { href: `#${id}` }, element("span", { class: "method" }, method.toUpperCase()), path)));
        index.append(element("h2", {}, name), element("ul", {}, ...links));
    }
    content.setAttribute("aria-busy", "false");
    document.getElementById("filter").addEventListener("input", (event) => filter(event.target.value.trim().toLowerCase()));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function filter(text) {
    for (const item of document.querySelectorAll("nav li")) {
        const isShown = item.dataset.text.includes(text);
        item.hidden = !isShown;
        document.getElementById(item.querySelector("a").hash.slice(1)).hidden = !isShown;
    }
    // A heading without visible items below it is hidden.
    for (const heading of document.querySelectorAll("nav h2")) {
        heading.hidden = heading.nextElementSibling.querySelector("li:not([hidden])") === null;
    }
}

fetch("/openapi.json").then((response) => response.json()).then(draw).catch(() => {
    document.getElementById("loading").textContent = "Loading the API description failed. Reload the page to try again.";
});
