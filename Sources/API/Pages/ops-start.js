// Runs last, when every part of the page is loaded: resumes with the token and the range of this tab.
"use strict";

const keptRange = sessionStorage.getItem(rangeKey);
if (keptRange !== null) chooseRange(keptRange);
if (token !== null) look();
