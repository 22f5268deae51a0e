// Draws /openapi.json. Nothing is asked of any other server: no validator, no fonts, no telemetry.
window.addEventListener("DOMContentLoaded", () => {
  window.SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { activated: false },
  });
});
