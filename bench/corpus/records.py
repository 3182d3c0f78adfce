"""Ten records as one would extract them from letters, forms and logs, each with its JSON Schema.

A record is written with its values in place; the schema says what is there: types, the choices of One, `required` for
all but Maybe, and that nothing else may come.
"""


class One:
    """A value of a fixed set."""

    def __init__(self, value, *others):
        self.value, self.choices = value, sorted({value, *others})


class Maybe:
    """A member that may be left out, or null where it is there."""

    def __init__(self, value):
        self.value = value


def schema_of(value):
    if isinstance(value, One):
        return {"type": "string", "enum": value.choices}
    if isinstance(value, Maybe):
        inner = schema_of(value.value)
        return dict(inner, type=[inner["type"], "null"]) if inner["type"] != "null" else {"type": ["string", "null"]}
    if isinstance(value, dict):
        return {"type": "object", "properties": {k: schema_of(v) for k, v in value.items()},
                "required": [k for k, v in value.items() if not isinstance(v, Maybe)], "additionalProperties": False}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0])}
    if value is None:
        return {"type": "null"}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}


def plain(value):
    if isinstance(value, (One, Maybe)):
        return plain(value.value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


INVOICE = {
    "invoice_number": "2024-00317", "issue_date": "2024-03-11", "due_date": "2024-04-10",
    "seller": {"name": "Nordlicht Druckerei GmbH", "street": "Speicherstrasse 14", "postal_code": "20457",
               "city": "Hamburg", "country": One("DE", "AT", "CH", "FR"), "vat_id": "DE298113604"},
    "buyer": {"name": "Aster Verlag", "street": "Lindenallee 3", "postal_code": "04109", "city": "Leipzig",
              "country": One("DE", "AT", "CH", "FR"), "vat_id": Maybe(None)},
    "lines": [
        {"position": 1, "description": "Poster A1, matt, 170 g", "quantity": 250, "unit_price": 1.85, "tax_percent": 19},
        {"position": 2, "description": "Folded leaflet, 6 pages", "quantity": 4000, "unit_price": 0.11, "tax_percent": 19},
        {"position": 3, "description": "Express delivery", "quantity": 1, "unit_price": 24.9, "tax_percent": 19}],
    "net_total": 927.4, "tax_total": 176.21, "gross_total": 1103.61, "currency": One("EUR", "CHF", "USD"),
    "payment": {"method": One("bank_transfer", "card", "direct_debit"), "iban": "DE44200505501234567890", "paid": False}}

PATIENT_VISIT = {
    "visit_id": "V-88213", "date": "2023-11-02", "department": One("cardiology", "surgery", "neurology", "paediatrics"),
    "patient": {"id": "P-104772", "age": 67, "sex": One("female", "male", "other"), "weight_kg": 71.5, "height_cm": 164,
                "smoker": False, "allergies": ["penicillin", "latex"]},
    "vital_signs": {"systolic_mmhg": 148, "diastolic_mmhg": 91, "pulse_bpm": 84, "temperature_c": 36.7,
                    "oxygen_saturation_percent": 96},
    "complaints": ["shortness of breath when climbing stairs", "swollen ankles in the evening"],
    "medication": [
        {"name": "ramipril", "dose_mg": 5.0, "times_per_day": 1, "since": "2021-06-14", "continued": True},
        {"name": "bisoprolol", "dose_mg": 2.5, "times_per_day": 1, "since": "2022-01-20", "continued": True},
        {"name": "ibuprofen", "dose_mg": 400.0, "times_per_day": 2, "since": "2023-10-25", "continued": False}],
    "diagnosis": {"code": "I50.1", "text": "left ventricular failure", "certainty": One("suspected", "confirmed")},
    "next_visit": Maybe("2023-11-16")}

JOB_POSTING = {
    "title": "Senior embedded software engineer", "company": "Kestrel Instruments",
    "location": {"city": "Grenoble", "country": "France", "remote": One("no", "partly", "fully")},
    "employment": One("full_time", "part_time", "contract", "internship"), "start": "2025-02-01", "weekly_hours": 38.5,
    "salary": {"from": 52000, "to": 64000, "currency": One("EUR", "USD", "GBP"), "per": One("year", "month", "hour")},
    "required_skills": ["C", "real-time operating systems", "oscilloscopes and logic analysers", "written English"],
    "nice_to_have": ["Rust", "IEC 61508", "French"],
    "languages": [{"language": "English", "level": One("C1", "A2", "B1", "B2", "C2")},
                  {"language": "French", "level": One("B1", "A2", "B2", "C1", "C2")}],
    "education": {"degree": One("master", "bachelor", "doctorate", "none"), "field": "electrical engineering"},
    "contact": {"name": "Maud Ferrand", "email": "jobs@kestrel.example", "phone": Maybe(None)}, "closing_date": "2025-01-10"}

FLIGHT_BOOKING = {
    "booking_code": "QX7L2M", "status": One("confirmed", "waitlisted", "cancelled"), "booked_at": "2024-05-28T09:14:00Z",
    "passengers": [
        {"first_name": "Ines", "last_name": "Carvalho", "type": One("adult", "child", "infant"), "seat": "14A",
         "meal": One("vegetarian", "standard", "vegan", "none"), "checked_bags": 1},
        {"first_name": "Tiago", "last_name": "Carvalho", "type": One("child", "adult", "infant"), "seat": "14B",
         "meal": One("standard", "vegetarian", "vegan", "none"), "checked_bags": 0}],
    "segments": [
        {"flight": "TP571", "from": "FRA", "to": "LIS", "departure": "2024-07-12T11:05:00+02:00",
         "arrival": "2024-07-12T13:10:00+01:00", "cabin": One("economy", "business"), "aircraft": "A320"},
        {"flight": "TP1865", "from": "LIS", "to": "PDL", "departure": "2024-07-12T15:40:00+01:00",
         "arrival": "2024-07-12T17:00:00+00:00", "cabin": One("economy", "business"), "aircraft": "A321"}],
    "fare": {"base": 318.4, "taxes": 121.76, "total": 440.16, "currency": One("EUR", "USD"), "refundable": False},
    "loyalty_number": Maybe("TPV 2290187")}

INCIDENT = {
    "incident_id": 4471, "title": "Checkout requests time out in the second data centre",
    "severity": One("major", "minor", "critical"), "state": One("resolved", "open", "monitoring"),
    "started_at": "2024-09-03T06:52:10Z", "detected_at": "2024-09-03T06:58:44Z", "resolved_at": "2024-09-03T08:21:03Z",
    "affected": {"services": ["checkout", "gift-cards", "order-history"], "regions": ["eu-west"], "users_percent": 12.5,
                 "failed_requests": 48213, "data_lost": False},
    "cause": {"category": One("configuration", "code", "hardware", "load", "third_party"),
              "summary": "A connection pool was limited to 20 connections by a change of defaults in a library."},
    "timeline": [
        {"at": "06:58", "who": "alerting", "what": "error rate above 5 percent for three minutes"},
        {"at": "07:10", "who": "on-call", "what": "traffic moved to the first data centre"},
        {"at": "08:02", "who": "database team", "what": "pool size set explicitly and rolled out"}],
    "follow_ups": [{"task": "test pool limits under load", "owner": "platform", "due": "2024-09-20", "done": False},
                   {"task": "alert on waiting connections", "owner": "observability", "due": "2024-09-13", "done": True}]}

RECIPE = {
    "name": "Leek and potato soup", "servings": 4, "minutes": {"preparation": 15, "cooking": 30},
    "difficulty": One("easy", "medium", "hard"), "diet": One("vegetarian", "vegan", "none"),
    "ingredients": [
        {"item": "leeks", "amount": 3.0, "unit": One("piece", "g", "ml", "tbsp", "tsp"), "note": Maybe("white part only")},
        {"item": "floury potatoes", "amount": 500.0, "unit": One("g", "piece", "ml", "tbsp", "tsp"), "note": Maybe(None)},
        {"item": "vegetable stock", "amount": 900.0, "unit": One("ml", "piece", "g", "tbsp", "tsp"), "note": Maybe(None)},
        {"item": "butter", "amount": 2.0, "unit": One("tbsp", "piece", "g", "ml", "tsp"), "note": Maybe(None)}],
    "steps": ["Cut the leeks into rings and wash them well.", "Soften them in the butter for five minutes.",
              "Add diced potatoes and stock, and simmer until the potatoes fall apart.", "Blend, season and serve."],
    "nutrition": {"energy_kcal": 214, "protein_g": 4.8, "fat_g": 6.9, "carbohydrates_g": 31.2, "salt_g": 1.4},
    "allergens": ["milk", "celery"], "freezable": True}

PROPERTY_LISTING = {
    "reference": "RES-20981", "kind": One("flat", "house", "studio", "office"), "offer": One("rent", "sale"),
    "address": {"street": "Rue des Carmes", "number": "27", "floor": 3, "postal_code": "54000", "city": "Nancy"},
    "living_area_m2": 78.4, "rooms": 4, "bedrooms": 2, "bathrooms": 1, "built": 1931, "renovated": Maybe(2016),
    "price": {"amount": 940, "currency": One("EUR", "CHF"), "per_month": True, "charges_included": True, "deposit": 1880},
    "features": {"lift": False, "balcony": True, "cellar": True, "parking": One("street", "garage", "none"),
                 "heating": One("gas", "district", "electric", "heat_pump"), "furnished": False, "pets_allowed": True},
    "energy": {"class": One("C", "A", "B", "D", "E", "F", "G"), "kwh_per_m2_year": 139, "co2_kg_per_m2_year": 24},
    "nearby": [{"what": "tram stop", "metres": 180}, {"what": "primary school", "metres": 350},
               {"what": "weekly market", "metres": 600}],
    "available_from": "2024-08-01", "agent": {"name": "Odile Marchal", "phone": "+33 3 83 00 00 00"}}

SHIPMENT = {
    "tracking_number": "JX 4402 1187 9", "carrier": One("post", "courier", "rail"), "service": One("standard", "express"),
    "sender": {"name": "Bergmann Optics", "city": "Jena", "country": "Germany", "reference": "PO-7741"},
    "recipient": {"name": "University of Tartu, Institute of Physics", "city": "Tartu", "country": "Estonia",
                  "reference": "FI-2024-118"},
    "parcels": [
        {"number": 1, "weight_kg": 12.4, "length_cm": 60, "width_cm": 40, "height_cm": 35, "fragile": True},
        {"number": 2, "weight_kg": 3.1, "length_cm": 30, "width_cm": 20, "height_cm": 15, "fragile": False}],
    "insured_value": 18500.0, "currency": One("EUR", "USD"), "incoterm": One("DAP", "EXW", "FCA", "DDP"),
    "events": [
        {"time": "2024-02-05T16:20", "place": "Jena", "status": One("accepted", "in_transit", "delivered", "held")},
        {"time": "2024-02-06T03:45", "place": "Leipzig", "status": One("in_transit", "accepted", "delivered", "held")},
        {"time": "2024-02-07T10:12", "place": "Tallinn", "status": One("in_transit", "accepted", "delivered", "held")}],
    "expected_delivery": "2024-02-08", "signature_required": True, "customs_note": Maybe(None)}

MEETING_MINUTES = {
    "title": "Planning of the autumn exhibition", "date": "2024-06-19", "begins": "14:00", "ends": "15:35",
    "place": "Reading room", "chair": "Helene Brandt", "minutes_by": "Jon Aasen",
    "present": ["Helene Brandt", "Jon Aasen", "Priya Nair", "Luca Moretti"], "absent": ["Sofia Lindqvist"],
    "items": [
        {"number": 1, "topic": "Loans from other museums",
         "summary": "Two of five requests were granted; Bergen wants a climate report before it decides.",
         "decision": Maybe("Send the report of 2023 and offer a visit."), "votes_for": 4, "votes_against": 0},
        {"number": 2, "topic": "Opening hours",
         "summary": "Longer hours on Thursdays cost about 310 euros a week and brought 70 visitors last year.",
         "decision": Maybe("Open until 20:00 on Thursdays in October."), "votes_for": 3, "votes_against": 1}],
    "tasks": [{"who": "Priya Nair", "what": "climate report to Bergen", "by": "2024-06-26", "priority": One("high", "low")},
              {"who": "Luca Moretti", "what": "staff plan for Thursdays", "by": "2024-07-05", "priority": One("low", "high")}],
    "next_meeting": "2024-07-10"}

SENSOR_REPORT = {
    "station": {"id": "AQ-17", "name": "Marktplatz", "latitude": 49.0094, "longitude": 8.4044, "altitude_m": 115},
    "interval": {"from": "2024-01-14T00:00:00Z", "to": "2024-01-14T06:00:00Z", "minutes": 120},
    "firmware": "3.8.1", "battery_percent": 87, "mode": One("normal", "calibration", "test"),
    "readings": [
        {"time": "00:00", "pm10": 31.2, "pm25": 22.8, "no2": 41.0, "temperature": -1.4, "humidity": 88, "valid": True},
        {"time": "02:00", "pm10": 28.7, "pm25": 21.5, "no2": 33.9, "temperature": -2.0, "humidity": 90, "valid": True},
        {"time": "04:00", "pm10": 27.9, "pm25": 20.9, "no2": 30.4, "temperature": -2.3, "humidity": 91, "valid": True},
        {"time": "06:00", "pm10": 44.6, "pm25": 30.1, "no2": 52.7, "temperature": -2.1, "humidity": 90, "valid": False}],
    "limits": {"pm10": 50.0, "pm25": 25.0, "no2": 200.0}, "exceeded": ["pm25"],
    "remarks": Maybe("The last reading was taken while a street sweeper passed."),
    "next_maintenance": {"date": "2024-02-20", "kind": One("filter", "battery", "full"), "technician": "M. Okafor"}}

RECORDS = [(name, schema_of(value), plain(value)) for name, value in [
    ("invoice", INVOICE), ("patient_visit", PATIENT_VISIT), ("job_posting", JOB_POSTING),
    ("flight_booking", FLIGHT_BOOKING), ("incident", INCIDENT), ("recipe", RECIPE),
    ("property_listing", PROPERTY_LISTING), ("shipment", SHIPMENT), ("meeting_minutes", MEETING_MINUTES),
    ("sensor_report", SENSOR_REPORT)]]
