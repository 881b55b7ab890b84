"""JSON as Java's libraries have it: json-smart, Gson and org.json, and JsonPath over it."""
