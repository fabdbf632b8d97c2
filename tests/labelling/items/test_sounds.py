"""Sounds: reading, clips, encoders, and whole runs on synthetic classes of tones, noise and clicks."""

import csv
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("soundfile")

import soundfile

from marginshot.cli.app import app
from marginshot.data import sounds
from marginshot.data.sounds import Clip, UnreadableSoundError, clips_of, read_clip
from marginshot.labelling import Session, label_sounds
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.kinds import PICTURE
from marginshot.labelling.items.sounds import SOUND, LogMelEncoder

RATE = 16_000


def make(kind, seconds=1.0, seed=0, rate=RATE):
    """Samples (n,) of a class: a tone, noise, or clicks; the seed varies pitch and pace."""
    random = np.random.default_rng(seed)
    times = np.arange(round(seconds * rate)) / rate
    if kind == "tone":
        return 0.4 * np.sin(2 * np.pi * random.uniform(500, 700) * times) + 0.002 * random.normal(size=len(times))
    if kind == "noise":
        return 0.2 * random.normal(size=len(times))
    return 0.5 * (np.sin(2 * np.pi * random.uniform(4, 6) * times) > 0.995) + 0.002 * random.normal(size=len(times))


def write(path, samples, rate=RATE, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    with soundfile.SoundFile(path, "w", rate, 1 if samples.ndim == 1 else samples.shape[1], **options) as file:
        for start in range(0, len(samples), 4096):
            file.write(samples[start : start + 4096])
    return path


@pytest.fixture
def folders(tmp_path):
    """Twelve sounds to label, one recording of 12 seconds among them, and two examples of each of three classes."""
    for kind in ("tone", "noise", "click"):
        for seed in range(4):
            write(tmp_path / "sounds" / f"{kind}-{seed}.wav", make(kind, seed=seed))
        for seed in (10, 11):
            write(tmp_path / "examples" / kind / f"{seed}.flac", make(kind, seed=seed))
    long = np.concatenate([make("tone", 5.0, 20), make("noise", 5.0, 21), make("tone", 2.0, 22)])
    write(tmp_path / "sounds" / "field" / "long.flac", long)
    return tmp_path


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_every_format_gives_the_tone_that_was_written(tmp_path, name):
    write(tmp_path / name, make("tone", 2.0), 44_100)
    samples = read_clip(Clip(tmp_path / name), 32_000)
    spectrum = np.abs(np.fft.rfft(samples))
    pitch = np.fft.rfftfreq(len(samples), 1 / 32_000)[spectrum.argmax()]
    written = np.abs(np.fft.rfft(make("tone", 2.0)))
    assert pitch == pytest.approx(written.argmax() / len(make("tone", 2.0)) * 44_100, abs=5)


def test_channels_are_averaged(tmp_path):
    left = make("tone")
    path = write(tmp_path / "a.wav", np.stack([left, np.zeros_like(left)], axis=1), subtype="FLOAT")
    np.testing.assert_allclose(read_clip(Clip(path), RATE), left / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("seconds", "endings"),
    [
        (9.9, [""]),
        (10.5, [" 0:00-0:05", " 0:05-0:11"]),
        (12.0, [" 0:00-0:05", " 0:05-0:10", " 0:10-0:12"]),
    ],
)
def test_long_recordings_are_cut_and_nothing_is_lost(tmp_path, seconds, endings):
    samples = make("noise", seconds)
    clips = clips_of(write(tmp_path / "a.wav", samples, subtype="FLOAT"))
    assert [clip.ending for clip in clips] == endings
    np.testing.assert_allclose(np.concatenate([read_clip(clip, RATE) for clip in clips]), samples, atol=1e-6)


def test_a_clip_is_found_again_by_its_name(folders):
    clips = clips_of(folders / "sounds" / "field" / "long.flac")
    assert SOUND.find(folders / "sounds", "field/long.flac 0:05-0:10") == [clips[1]]
    assert SOUND.find(folders / "sounds", "field/long.flac") == clips
    assert SOUND.find(folders / "sounds", "field/long.flac 0:06-0:10") == []
    assert len({SOUND.digest(clip) for clip in clips}) == 3


def _header(n_bytes, channels=1, rate=RATE):
    size = struct.pack("<I", n_bytes)
    about = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return b"RIFF" + size + b"WAVEfmt " + struct.pack("<I", 16) + about + b"data" + size


def hostile(tmp_path):
    """Files that claim what they do not hold, and what is said of each."""
    flac = bytearray(write(tmp_path / "f.flac", make("noise", 11.0)).read_bytes())
    flac[21:26] = bytes([flac[21] | 0x0F, 0xFF, 0xFF, 0xFF, 0xFF])
    not_finite = make("tone").astype(np.float32)
    not_finite[100] = np.nan
    nan = write(tmp_path / "nan.wav", not_finite, subtype="FLOAT").read_bytes()
    return {
        "empty.wav": (b"", "cannot be read as a sound"),
        "text.mp3": (b"this is no sound" * 500, "cannot be read as a sound"),
        "no-channel.wav": (_header(200, channels=0) + bytes(200), "cannot be read as a sound"),
        "no-rate.wav": (_header(200, rate=0) + bytes(200), "cannot be read as a sound"),
        "nothing.wav": (_header(0), "holds no sound"),
        "endless.flac": (bytes(flac), "hours long, and at most 24 are cut into clips; split it"),
        "nan.wav": (nan, "holds samples that are not finite numbers"),
        "cut.flac": (bytes(flac[:60]), "cannot be read as a sound"),
    }


def test_hostile_files_are_left_out_and_named(folders):
    cases = hostile(folders)
    for name, (content, _) in cases.items():
        (folders / "sounds" / name).write_bytes(content)
    result = label_sounds(folders / "sounds", folders / "examples", cache=folders / "cache")
    assert set(result.problems) == set(cases)
    for name, (_, words) in cases.items():
        assert words in result.problems[name]
        assert "\n" not in result.problems[name]
    assert len(result.columns()["item"]) == 15


def test_a_header_that_claims_gigabytes_gives_what_is_there(tmp_path):
    samples = (make("tone", 12.0) * 32767).astype("<i2").tobytes()
    (tmp_path / "a.wav").write_bytes(_header(0xFFFFFFF0) + samples)
    assert [clip.ending for clip in clips_of(tmp_path / "a.wav")] == [" 0:00-0:05", " 0:05-0:10", " 0:10-0:12"]


def test_of_a_recording_that_was_cut_off_all_that_is_there_is_used(tmp_path):
    whole = write(tmp_path / "a.mp3", make("noise", 40.0), 44_100).read_bytes()
    (tmp_path / "b.mp3").write_bytes(whole[: len(whole) // 2])
    clips = clips_of(tmp_path / "b.mp3")
    n_whole = len(clips_of(tmp_path / "a.mp3"))
    assert 0 < len(clips) < n_whole
    assert all(len(read_clip(clip, RATE)) for clip in clips)


def test_ten_hours_are_clips_that_are_read_one_by_one(tmp_path):
    path = tmp_path / "night.wav"
    n_bytes = 10 * 3600 * 1_000 * 2
    with path.open("wb") as file:
        file.write(_header(n_bytes, rate=1_000))
        file.truncate(44 + n_bytes)  # zeros that take no room on the disk
    clips = clips_of(path)
    assert len(clips) == 7200
    assert clips[-1].ending == " 9:59:55-10:00:00"
    assert len(read_clip(clips[-1], 1_000)) == 5_000


def test_too_many_samples_a_second_are_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(_header(200, rate=2_000_000_000) + bytes(200))
    with pytest.raises(UnreadableSoundError, match="2,000,000,000 samples a second"):
        read_clip(Clip(tmp_path / "a.wav"), RATE)


def test_loudness_does_not_matter_and_silence_is_finite(tmp_path):
    quiet, loud = (write(tmp_path / f"{gain}.wav", gain * make("click"), subtype="FLOAT") for gain in (0.01, 1.0))
    encoder = LogMelEncoder()
    first, second = (encoder.prepare(Clip(path)) for path in (quiet, loud))
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-2)
    silence = encoder.prepare(Clip(write(tmp_path / "silence.wav", np.zeros(100))))
    assert silence.shape == (120,)
    assert np.isfinite(silence).all()


def test_mel_bands_are_where_their_tones_are():
    from marginshot.labelling.items.sounds import mel_powers

    times = np.arange(32_000) / 32_000
    loudest = [
        int(mel_powers(np.sin(2 * np.pi * pitch * times)).mean(axis=0).argmax()) for pitch in (200, 1_000, 8_000)
    ]
    mel = [2595 * np.log10(1 + pitch / 700) for pitch in (50, 200, 1_000, 8_000, 15_000)]
    expected = [65 * (value - mel[0]) / (mel[-1] - mel[0]) - 1 for value in mel[1:-1]]
    np.testing.assert_allclose(loudest, expected, atol=1.0)


def test_played_sound_is_that_of_the_clip(folders):
    clip = clips_of(folders / "sounds" / "field" / "long.flac")[2]
    path = folders / "played.wav"
    path.write_bytes(SOUND.sound(clip))
    with wave.open(str(path)) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(2.0, abs=0.01)


def test_a_run_labels_all_and_its_corrections_are_examples_of_the_next(folders):
    def run(*more):
        words = ["label", str(folders / "sounds"), "--examples", str(folders / "examples")]
        return CliRunner().invoke(
            app, [*words, "--out", str(folders / "out"), "--cache", str(folders / "cache"), *more]
        )

    done = run()
    assert done.exit_code == 0, done.output
    table = folders / "out" / "labels.csv"
    rows = {row["item"]: row for row in csv.DictReader(table.read_text().splitlines())}
    assert len(rows) == 15
    assert all(rows[item]["label"] == item.partition("-")[0] for item in rows if not item.startswith("field"))
    assert [rows[f"field/long.flac {part}"]["label"] for part in ("0:00-0:05", "0:05-0:10")] == ["tone", "noise"]
    page = (folders / "out" / "gallery.html").read_text()
    assert 'src="../sounds/field/long.flac#t=5,10"' in page
    text = table.read_text()
    old = next(line for line in text.splitlines() if line.startswith("field/long.flac 0:10-0:12"))
    table.write_text(text.replace(old, old.replace("tone", "click")))
    again = run()
    assert again.exit_code == 0, again.output
    rows = {row["item"]: row for row in csv.DictReader(table.read_text().splitlines())}
    corrected = rows["field/long.flac 0:10-0:12"]
    assert (corrected["label"], corrected["review"]) == ("click", "example")


def test_corrections_of_sounds_are_known_to_python_among_more_pictures(folders):
    for number in range(30):
        (folders / "sounds" / f"{number}.png").touch()
    options = {"out": folders / "out", "cache": folders / "cache"}
    label_sounds(folders / "sounds", folders / "examples", **options).write(folders / "out", cache=folders / "cache")
    table = folders / "out" / "labels.csv"
    old = next(line for line in table.read_text().splitlines() if line.startswith("field/long.flac 0:10-0:12"))
    table.write_text(table.read_text().replace(old, old.replace("tone", "click")))
    (folders / "sounds" / "field" / "long.flac").rename(folders / "sounds" / "longer.flac")
    again = label_sounds(folders / "sounds", folders / "examples", **options)
    assert again.classes == ("click", "noise", "tone")
    assert dict(zip(again.collection.items, again.labels, strict=True))["longer.flac 0:10-0:12"] == "click"
    assert any("its label went with it: longer.flac 0:10-0:12." in note for note in again.collection.notes)


def test_parts_of_recordings_do_not_go_into_class_folders(folders):
    words = ["label", str(folders / "sounds"), "--examples", str(folders / "examples"), "--out", str(folders / "out")]
    done = CliRunner().invoke(app, [*words, "--copy", "--cache", str(folders / "cache")])
    assert isinstance(done.exception, RefusedError)
    assert "is a part of a recording, and only whole files go into class folders" in str(done.exception)
    assert not (folders / "out").exists()
    (folders / "sounds" / "field" / "long.flac").unlink()
    done = CliRunner().invoke(app, [*words, "--copy", "--cache", str(folders / "cache")])
    assert done.exit_code == 0, done.output
    assert (folders / "out" / "tone" / "tone-0.wav").is_file()


@pytest.mark.parametrize("tool", ["camtrap-dp", "boxes"])
def test_exports_of_pictures_are_refused_before_the_work(folders, tool):
    words = ["label", str(folders / "sounds"), "--examples", str(folders / "examples"), "--out", str(folders / "out")]
    done = CliRunner().invoke(app, [*words, "--export", tool, "--cache", str(folders / "cache")])
    assert isinstance(done.exception, RefusedError)
    assert not (folders / "out").exists()


def test_a_session_keeps_what_was_said_of_a_clip_whose_recording_is_renamed(folders):
    where = {"folder": folders / "sessions", "cache": folders / "cache"}
    item = "field/long.flac 0:05-0:10"
    with Session.open(folders / "sounds", **where) as session:
        session.label({item: "noise", "tone-0.wav": "tone"})
    (folders / "sounds" / "field" / "long.flac").rename(folders / "sounds" / "field" / "dawn.flac")
    with Session.open(folders / "sounds", **where) as session:
        row = session.items.index("field/dawn.flac 0:05-0:10")
        assert session.state.classes[session.state.given[row]].name == "noise"


def test_clips_can_be_filtered_by_their_recording(folders):
    pytest.importorskip("starlette")
    from marginshot.studio.fields import fields

    with Session.open(folders / "sounds", folder=folders / "sessions", cache=folders / "cache") as session:
        recordings = next(field for field in fields(session) if field["name"] == "Recording")
    assert ("long.flac", 3) in recordings["values"]
    assert len(recordings["values"]) == 13


def test_the_kind_of_most_files_is_labelled_and_the_others_are_named(folders):
    from PIL import Image

    Image.new("L", (8, 8)).save(folders / "sounds" / "cover.png")
    found = collect_unlabelled(folders / "sounds")
    assert (found.kind, found.not_read) == (SOUND, {".png": 1})
    assert collect_unlabelled(folders / "sounds", kind=PICTURE).items == ("cover.png",)


def test_without_soundfile_a_folder_of_sounds_says_what_brings_it(folders, monkeypatch):
    monkeypatch.setattr(sounds, "find_spec", lambda _: None)
    sounds.sound_suffixes.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"12 \.wav \(to read them: pip install 'marginshot\[sounds\]'\)"):
            collect_unlabelled(folders / "sounds")
    finally:
        sounds.sound_suffixes.cache_clear()


def test_other_names_of_encoders_are_refused():
    with pytest.raises(ValueError, match=r"encoded by log-mel or by an \.onnx file; got 'net.tflite'"):
        SOUND.encoder("net.tflite")


def test_clips_are_paths():
    assert Path(Clip(Path("a.wav"), 5.0, 10.0)) == Path("a.wav")
